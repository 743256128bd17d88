package hosttest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// dockerService is the unit of the engine.
const dockerService = "docker.service"

// EngineState is a container engine: what it contains survives a reboot, as on disk.
type EngineState struct {
	// Running says that it answers, even if systemd does not know it.
	Running    bool
	Containers map[string]*ContainerState
	// Images are ids by name:tag, or by id if an image has no name.
	Images map[string]string
	// Archives are the images, name:tag to id, in what an archive contains; Public what
	// can be pulled.
	Archives map[string]map[string]string
	Public   map[string]string
	// Insecure is the part of insecure-registries that it uses.
	Insecure []string
	// ContainerdStore is its version if containerd stores its images, else "".
	ContainerdStore string
	// Taken is a port that it has for no container until it is restarted, 0 for none: as Docker
	// 20.10 has after a power cut in the start of a container.
	Taken int
	// cutOff is the port of a container whose start a power cut has ended.
	cutOff int
	made   int
	// fresh are the images and containers, by their ids, that are not on the disk yet, and
	// damaged those that a power cut has found like that.
	fresh, damaged map[string]bool
}

// ContainerState is a container.
type ContainerState struct {
	host.Container
	Spec host.ContainerSpec
	// Mounts is what its first process sees.
	Mounts []host.Mount
}

// proxy is the process that listens on its ports.
func (c *ContainerState) proxy() int { return c.PID + 1000 }

// takenBy is the process that listens on a port that is taken.
const takenBy = 8999

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
		fresh: map[string]bool{}, damaged: map[string]bool{},
	}
}

// Foreign is a container that the agent did not make.
func Foreign(name string, ports ...int) func(*EngineState) {
	return func(e *EngineState) {
		e.made++
		e.Containers[name] = &ContainerState{Container: host.Container{
			ID: fmt.Sprintf("foreign-%d", e.made), Name: name, Image: "sha256:foreign", Status: "running", PID: 9000 + e.made, Ports: ports,
		}}
	}
}

type engine struct{ *Machine }

// up is the engine, if one answers. The caller has locked mu.
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

func (h engine) Containers(context.Context) ([]host.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil {
		return nil, err
	}
	var all []host.Container
	for _, name := range slices.Sorted(maps.Keys(e.Containers)) {
		all = append(all, e.Containers[name].Container)
	}
	return all, nil
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
	if file, closes := archive.(io.Closer); closes { // as the client of the real engine does
		_ = file.Close()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker load", "")
	if err != nil {
		return nil, err
	}
	images, ok := e.Archives[string(content)]
	if !ok {
		return nil, &host.EngineError{Doing: "loading an image file", Message: "invalid tar header"}
	}
	for name, id := range images {
		e.take(name, id)
	}
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
		return &host.EngineError{Doing: "pulling the image " + reference, Message: "manifest unknown"}
	}
	e.take(reference, e.Public[reference])
	return nil
}

// take stores an image, unless the engine has it.
func (e *EngineState) take(name, id string) {
	if e.image(id) == "" {
		e.fresh[id] = true
	}
	e.Images[name] = id
}

func (h engine) RemoveImage(_ context.Context, reference string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.asked("docker rmi", reference)
	if err != nil {
		return err
	}
	id := e.image(reference)
	for _, c := range e.Containers {
		if c.Image == id {
			return &host.EngineError{Doing: "docker rmi", Message: "conflict: the image is used by the container " + c.Name}
		}
	}
	delete(e.Images, reference)
	if e.image(id) == "" {
		delete(e.damaged, id)
		delete(e.fresh, id)
	}
	return nil
}

func (h engine) Sync(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, err := h.up()
	if err != nil {
		return err
	}
	if err := h.change("docker sync", ""); err != nil {
		return err
	}
	clear(e.fresh)
	return nil
}

// whole reports whether a container can run: neither it nor its image is damaged.
func (e *EngineState) whole(c *ContainerState) bool { return !e.damaged[c.ID] && !e.damaged[c.Image] }

// CutPower is a Reboot that nothing on the machine has prepared for.
func (m *Machine) CutPower() {
	if m.Containers != nil {
		maps.Copy(m.Containers.damaged, m.Containers.fresh)
		clear(m.Containers.fresh)
		if name, ok := strings.CutPrefix(m.stopped.Before, "docker start "); ok {
			m.Containers.cutOff = m.Containers.Containers[name].Spec.Port
		}
	}
	m.Reboot()
}

// asked returns the engine for a change. The caller has locked mu.
func (h engine) asked(operation, detail string) (*EngineState, error) {
	e, err := h.up()
	if err != nil {
		return nil, err
	}
	h.changes.Engine()
	if err := h.change(operation, detail); err != nil {
		return nil, &host.EngineError{Doing: operation, Message: err.Error()}
	}
	return e, nil
}

// makeEngine is an engine that does not run yet.
func (m *Machine) makeEngine() {
	if m.Containers == nil {
		m.Containers = newEngine()
	}
}

// bootEngine starts the engine, and the containers that the engine starts with it.
func (m *Machine) bootEngine() {
	m.makeEngine()
	m.Containers.Running = true
	m.Containers.Insecure, _ = m.insecureRegistries()
	m.Containers.Taken, m.Containers.cutOff = m.Containers.cutOff, 0
	for _, c := range m.Containers.Containers {
		if c.Restart == "always" && c.Status != "created" && c.Spec.Port != m.Containers.Taken && m.exists(c.Spec.Source) && m.Containers.whole(c) {
			m.run(m.Containers, c)
		}
	}
}

// stopEngine ends the engine and all its containers.
func (m *Machine) stopEngine() {
	if m.Containers == nil {
		return
	}
	m.Containers.Running, m.Containers.Taken = false, 0
	for _, c := range m.Containers.Containers {
		if c.PID != 0 {
			c.Status, c.PID = "exited", 0
		}
	}
}
