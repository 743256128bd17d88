package hosttest

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

func (h engine) Create(_ context.Context, c host.ContainerSpec) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker create", c.Name)
	switch {
	case err != nil:
		return err
	case e.Containers[c.Name] != nil:
		return &host.EngineError{Doing: "docker create", Message: "Conflict. The container name is already in use"}
	case e.image(c.Image) == "":
		return &host.EngineError{Doing: "docker create", Message: "No such image: " + c.Image}
	case !h.exists(c.Source):
		return &host.EngineError{Doing: "docker create", Message: "bind source path does not exist: " + c.Source}
	}
	e.made++
	e.fresh[fmt.Sprintf("container-%d", e.made)] = true
	e.Containers[c.Name] = &ContainerState{Spec: c, Container: host.Container{
		ID: fmt.Sprintf("container-%d", e.made), Name: c.Name, Image: e.image(c.Image), Status: "created",
		Restart: c.Restart, Labels: maps.Clone(c.Labels), Ports: []int{c.Port},
	}}
	return nil
}

// exists reports whether a directory exists, on the root disk or on a volume.
func (m *Machine) exists(path string) bool {
	if at := m.above(path); at != nil && at.Point != "/" {
		if d := m.byNumber(at.Device); d != nil {
			rel := strings.TrimPrefix(strings.TrimPrefix(path, at.Point), "/")
			return rel == "" || d.Inside[rel] != nil
		}
	}
	return m.Directories[path] != nil
}

// above is the mount that a path is on, nil for the root disk if the table has none.
func (m *Machine) above(path string) *host.Mount {
	var best *host.Mount
	for i, at := range m.MountTable {
		inside := at.Point == "/" || path == at.Point || strings.HasPrefix(path, at.Point+"/")
		if inside && (best == nil || len(at.Point) >= len(best.Point)) {
			best = &m.MountTable[i]
		}
	}
	return best
}

func (h engine) Start(_ context.Context, name string) error {
	return h.with("docker start", name, func(e *EngineState, c *ContainerState) error {
		if c.Spec.Port == e.Taken {
			return &host.EngineError{Doing: "docker start", Message: fmt.Sprintf("Bind for 0.0.0.0:%d failed: port is already allocated", e.Taken)}
		}
		if taken := h.Taken[c.Spec.Port]; c.PID == 0 && len(taken) > 0 {
			c.Detail = "driver failed programming external connectivity: bind: address already in use"
			return &host.EngineError{Doing: "docker start", Message: c.Detail}
		}
		if !h.exists(c.Spec.Source) {
			return &host.EngineError{Doing: "docker start", Message: "error mounting " + c.Spec.Source + ": no such file or directory"}
		}
		if !e.whole(c) {
			return &host.EngineError{Doing: "docker start", Message: "exec /bin/registry: exec format error"}
		}
		h.run(e, c)
		return nil
	})
}

// run starts the first process of a container, which sees what is mounted now.
func (m *Machine) run(e *EngineState, c *ContainerState) {
	if c.PID != 0 {
		return
	}
	e.made++
	c.Status, c.Detail, c.PID = "running", "", 9000+e.made
	seen := host.Mount{Point: c.Spec.Target, Root: c.Spec.Source, Device: host.Number{Major: 8, Minor: 1}, FSType: "ext4"}
	if at := m.above(c.Spec.Source); at != nil {
		seen.Device, seen.FSType = at.Device, at.FSType
		seen.Root = strings.TrimSuffix(at.Root, "/") + strings.TrimPrefix(c.Spec.Source, strings.TrimSuffix(at.Point, "/"))
		if seen.Root == "" {
			seen.Root = "/"
		}
	}
	c.Mounts = []host.Mount{seen}
}

func (h engine) Stop(_ context.Context, name string) error {
	return h.with("docker stop", name, func(_ *EngineState, c *ContainerState) error {
		c.Status, c.PID = "exited", 0
		return nil
	})
}

func (h engine) Unpause(_ context.Context, name string) error {
	return h.with("docker unpause", name, func(_ *EngineState, c *ContainerState) error {
		c.Status = "running"
		return nil
	})
}

func (h engine) Remove(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker remove", name)
	if err != nil || e.Containers[name] == nil {
		return err
	}
	delete(e.damaged, e.Containers[name].ID)
	delete(e.Containers, name)
	return nil
}

func (h engine) Rename(_ context.Context, from, to string) error {
	return h.with("docker rename", from, func(e *EngineState, c *ContainerState) error {
		if e.Containers[to] != nil {
			return &host.EngineError{Doing: "docker rename", Message: "Conflict. The container name is already in use"}
		}
		delete(e.Containers, from)
		c.Name, e.Containers[to] = to, c
		return nil
	})
}

func (h engine) SetRestart(_ context.Context, name, policy string) error {
	return h.with("docker update", name, func(_ *EngineState, c *ContainerState) error {
		c.Restart = policy
		return nil
	})
}

// with changes one container.
func (h engine) with(operation, name string, do func(*EngineState, *ContainerState) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked(operation, name)
	if err != nil {
		return err
	}
	if e.Containers[name] == nil {
		return &host.EngineError{Doing: operation, Message: "No such container: " + name}
	}
	return do(e, e.Containers[name])
}
