package hosttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/host"
)

// dockerService is the unit of the engine.
const dockerService = "docker.service"

// EngineState is a container engine: what it holds survives a reboot, as on disk.
type EngineState struct {
	// Running says that it answers, whatever systemd knows of it.
	Running    bool
	Containers map[string]*ContainerState
	// Images are ids by name:tag, or by id where an image has no name.
	Images map[string]string
	// Archives are the images, name:tag to id, in what an archive holds; Public what
	// can be pulled.
	Archives map[string]map[string]string
	Public   map[string]string
	// Insecure is what it took over of insecure-registries.
	Insecure []string
	made     int
}

// ContainerState is a container.
type ContainerState struct {
	host.Container
	Spec host.ContainerSpec
	// Mounts is what its first process sees.
	Mounts []host.Mount
}

// Engine is a container engine that runs, as a service that is enabled.
func Engine(how ...func(*EngineState)) Part {
	return func(m *Machine) {
		m.Units[dockerService] = &UnitState{Enabled: true, Active: true}
		m.Containers = newEngine()
		m.Containers.Running = true
		for _, h := range how {
			h(m.Containers)
		}
	}
}

func newEngine() *EngineState {
	return &EngineState{
		Containers: map[string]*ContainerState{}, Images: map[string]string{},
		Archives: map[string]map[string]string{}, Public: map[string]string{},
	}
}

// Archive says what images an archive with this content holds.
func Archive(content string, images map[string]string) func(*EngineState) {
	return func(e *EngineState) { e.Archives[content] = images }
}

// Public says what image can be pulled.
func Public(reference, id string) func(*EngineState) {
	return func(e *EngineState) { e.Public[reference] = id }
}

// Foreign is a container that somebody else runs.
func Foreign(name string, ports ...int) func(*EngineState) {
	return func(e *EngineState) {
		e.made++
		e.Containers[name] = &ContainerState{Container: host.Container{
			ID: fmt.Sprintf("foreign-%d", e.made), Name: name, Image: "sha256:foreign", Status: "running", PID: 9000 + e.made, Ports: ports,
		}}
	}
}

type engine struct{ *Machine }

// up is the engine, where one answers. The caller holds mu.
func (m *Machine) up() (*EngineState, error) {
	if m.Containers == nil || !m.Containers.Running {
		return nil, &host.EngineDownError{Detail: "dial unix /run/docker.sock: no such file or directory"}
	}
	return m.Containers, nil
}

func (h engine) Version(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := h.up(); err != nil {
		return "", err
	}
	return "20.10.24", h.Fail["docker version"]
}

func (h engine) Container(_ context.Context, name string) (*host.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil || e.Containers[name] == nil {
		return nil, err
	}
	c := e.Containers[name].Container
	c.Labels, c.Ports = maps.Clone(c.Labels), slices.Clone(c.Ports)
	return &c, nil
}

func (h engine) Running(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(e.Containers)) {
		if e.Containers[name].PID != 0 {
			names = append(names, name)
		}
	}
	return names, nil
}

func (h engine) Image(_ context.Context, reference string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil {
		return "", err
	}
	return e.image(reference), nil
}

func (e *EngineState) image(reference string) string {
	for name, id := range e.Images {
		if name == reference || id == reference {
			return id
		}
	}
	return ""
}

func (h engine) Load(_ context.Context, archive io.Reader) ([]string, error) {
	content, err := io.ReadAll(archive)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker load", "")
	if err != nil {
		return nil, err
	}
	images, ok := e.Archives[string(content)]
	if !ok {
		return nil, &host.EngineError{Doing: "loading an image file", Words: "invalid tar header"}
	}
	maps.Copy(e.Images, images)
	return slices.Sorted(maps.Keys(images)), nil
}

func (h engine) Pull(_ context.Context, reference string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker pull", reference)
	if err != nil {
		return err
	}
	if e.Public[reference] == "" {
		return &host.EngineError{Doing: "pulling the image " + reference, Words: "manifest unknown"}
	}
	e.Images[reference] = e.Public[reference]
	return nil
}

func (h engine) Create(_ context.Context, c host.ContainerSpec) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker create", c.Name)
	switch {
	case err != nil:
		return err
	case e.Containers[c.Name] != nil:
		return &host.EngineError{Doing: "docker create", Words: "Conflict. The container name is already in use"}
	case e.image(c.Image) == "":
		return &host.EngineError{Doing: "docker create", Words: "No such image: " + c.Image}
	case !h.exists(c.Source):
		return &host.EngineError{Doing: "docker create", Words: "bind source path does not exist: " + c.Source}
	}
	e.made++
	e.Containers[c.Name] = &ContainerState{Spec: c, Container: host.Container{
		ID: fmt.Sprintf("container-%d", e.made), Name: c.Name, Image: e.image(c.Image), Status: "created",
		Restart: c.Restart, Labels: maps.Clone(c.Labels), Ports: []int{c.Port},
	}}
	return nil
}

// exists says whether a directory is there, on the root disk or on a volume.
func (m *Machine) exists(path string) bool {
	if at := m.above(path); at != nil && at.Point != "/" {
		if d := m.byNumber(at.Device); d != nil {
			rel := strings.TrimPrefix(strings.TrimPrefix(path, at.Point), "/")
			return rel == "" || d.Inside[rel] != nil
		}
	}
	return m.Directories[path] != nil
}

// above is the mount that a path is on, nil for the root disk where the table has none.
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
		if taken := h.Taken[c.Spec.Port]; c.PID == 0 && len(taken) > 0 {
			c.Detail = "driver failed programming external connectivity: bind: address already in use"
			return &host.EngineError{Doing: "docker start", Words: c.Detail}
		}
		if !h.exists(c.Spec.Source) {
			return &host.EngineError{Doing: "docker start", Words: "error mounting " + c.Spec.Source + ": no such file or directory"}
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
	if err == nil {
		delete(e.Containers, name)
	}
	return err
}

func (h engine) Rename(_ context.Context, from, to string) error {
	return h.with("docker rename", from, func(e *EngineState, c *ContainerState) error {
		if e.Containers[to] != nil {
			return &host.EngineError{Doing: "docker rename", Words: "Conflict. The container name is already in use"}
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
		return &host.EngineError{Doing: operation, Words: "No such container: " + name}
	}
	return do(e, e.Containers[name])
}

// asked is the engine, which was asked for a change. The caller holds mu.
func (h engine) asked(operation, detail string) (*EngineState, error) {
	e, err := h.up()
	if err != nil {
		return nil, err
	}
	h.changes.Engine()
	if err := h.change(operation, detail); err != nil {
		return nil, &host.EngineError{Doing: operation, Words: err.Error()}
	}
	return e, nil
}

// boot starts the containers that the engine starts by itself.
func (m *Machine) bootEngine() {
	if m.Containers == nil {
		m.Containers = newEngine()
	}
	m.Containers.Running = true
	m.Containers.Insecure, _ = m.insecureRegistries()
	for _, c := range m.Containers.Containers {
		if c.Restart == "always" && c.Status != "created" && m.exists(c.Spec.Source) {
			m.run(m.Containers, c)
		}
	}
}

// stopEngine ends the engine and all its containers.
func (m *Machine) stopEngine() {
	if m.Containers == nil {
		return
	}
	m.Containers.Running = false
	for _, c := range m.Containers.Containers {
		if c.PID != 0 {
			c.Status, c.PID = "exited", 0
		}
	}
}

type ports struct{ *Machine }

func (h ports) Listeners(port int) ([]host.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := slices.Clone(h.Taken[port])
	if c := h.publishing(port); c != nil {
		found = append(found, host.Listener{PID: c.PID + 1000, Program: "docker-proxy"})
	}
	return found, nil
}

func (m *Machine) publishing(port int) *ContainerState {
	if m.Containers == nil || !m.Containers.Running {
		return nil
	}
	for _, c := range m.Containers.Containers {
		if c.PID != 0 && slices.Contains(c.Ports, port) {
			return c
		}
	}
	return nil
}

// Get answers as the distribution registry does, or with what Answers has.
func (h ports) Get(_ context.Context, port int, _ string) (host.Answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answer, ok := h.Answers[port]; ok {
		if answer.Status == 0 {
			return answer, errors.New("connection refused")
		}
		return answer, nil
	}
	if c := h.publishing(port); c == nil || c.Status != "running" {
		return host.Answer{}, errors.New("connection refused")
	}
	header := http.Header{"Docker-Distribution-Api-Version": {"registry/2.0"}, "Content-Type": {"application/json"}}
	return host.Answer{Status: http.StatusOK, Header: header, Body: "{}"}, nil
}
