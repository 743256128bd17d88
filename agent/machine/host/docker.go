package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// How long the engine may take: for a query, for a change, and for an image.
const (
	engineQuery  = 10 * time.Second
	engineChange = 2 * time.Minute
	engineImage  = time.Hour
)

// docker is the engine behind a unix socket. It negotiates the version of the API with the
// engine. The client is made when it is first needed, which most nodes of the storage role
// never do.
type docker struct {
	api     func() *client.Client
	socket  string
	changes *Changes
}

func newDocker(socket string, changes *Changes) *docker {
	api := func() *client.Client {
		c, err := client.New(client.WithHost("unix://"+socket), client.WithUserAgent("nodehitch-agent"))
		if err != nil {
			panic("host: the engine's socket " + socket + ": " + err.Error()) // a path that the agent itself chose
		}
		return c
	}
	return &docker{api: sync.OnceValue(api), socket: socket, changes: changes}
}

// explain turns an error of the client into one of this package; nil stays nil.
func (d *docker) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case client.IsErrConnectionFailed(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF):
		return &EngineDownError{Detail: fmt.Sprintf("%s: %v", doing, err)}
	}
	return &EngineError{Doing: doing, Message: strings.TrimPrefix(err.Error(), "Error response from daemon: ")}
}

func (d *docker) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	v, err := d.api().ServerVersion(ctx, client.ServerVersionOptions{})
	return v.Version, d.explain("reading its version at "+d.socket, err)
}

func (d *docker) Container(ctx context.Context, name string) (*Container, error) {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	found, err := d.api().ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, d.explain("inspecting the container "+name, err)
	}
	return described(&found.Container), nil
}

// described copies what the agent uses; an older engine may leave out any of it.
func described(found *container.InspectResponse) *Container {
	c := &Container{ID: found.ID, Name: strings.TrimPrefix(found.Name, "/"), Image: found.Image}
	if s := found.State; s != nil {
		c.Status, c.Detail, c.ExitCode, c.PID = string(s.Status), s.Error, s.ExitCode, s.Pid
	}
	if found.Config != nil {
		c.Labels = found.Config.Labels
	}
	if h := found.HostConfig; h != nil {
		c.Restart = string(h.RestartPolicy.Name)
		for _, bindings := range h.PortBindings {
			for _, b := range bindings {
				if port, err := network.ParsePort(b.HostPort); err == nil {
					c.Ports = append(c.Ports, int(port.Num()))
				}
			}
		}
	}
	return c
}

// Containers inspects each: the list has no port of a container that is being started.
func (d *docker) Containers(ctx context.Context) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, engineQuery)
	defer cancel()
	list, err := d.api().ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, d.explain("listing the containers", err)
	}
	var all []Container
	for _, c := range list.Items {
		found, err := d.Container(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		if found != nil { // it was not removed in between
			all = append(all, *found)
		}
	}
	return all, nil
}

// Create uses a mount, not the equivalent of -v: with -v, the engine would create a missing
// directory itself, possibly on the wrong disk. Where Docker confines containers by SELinux,
// it gives each one categories of its own, without which the next container cannot read what
// this one has written: the level s0 has none.
func (d *docker) Create(ctx context.Context, c ContainerSpec) error {
	inside, _ := network.PortFrom(uint16(c.Inside), network.TCP) // both are checked ports
	return d.change(ctx, "making the container "+c.Name, func(ctx context.Context) error {
		_, err := d.api().ContainerCreate(ctx, client.ContainerCreateOptions{
			Name: c.Name,
			Config: &container.Config{
				Image: c.Image, Labels: c.Labels, ExposedPorts: network.PortSet{inside: {}},
			},
			HostConfig: &container.HostConfig{
				RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(c.Restart)},
				PortBindings:  network.PortMap{inside: {{HostPort: fmt.Sprint(c.Port)}}},
				Mounts:        []mount.Mount{{Type: mount.TypeBind, Source: c.Source, Target: c.Target}},
				SecurityOpt:   []string{"label=level:s0"},
			},
		})
		return err
	})
}

func (d *docker) Start(ctx context.Context, name string) error {
	return d.change(ctx, "starting the container "+name, func(ctx context.Context) error {
		_, err := d.api().ContainerStart(ctx, name, client.ContainerStartOptions{})
		return err
	})
}

func (d *docker) Stop(ctx context.Context, name string) error {
	return d.change(ctx, "stopping the container "+name, func(ctx context.Context) error {
		seconds := 10
		_, err := d.api().ContainerStop(ctx, name, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
}

func (d *docker) Unpause(ctx context.Context, name string) error {
	return d.change(ctx, "resuming the container "+name, func(ctx context.Context) error {
		_, err := d.api().ContainerUnpause(ctx, name, client.ContainerUnpauseOptions{})
		return err
	})
}

func (d *docker) Remove(ctx context.Context, name string) error {
	return d.change(ctx, "removing the container "+name, func(ctx context.Context) error {
		_, err := d.api().ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true})
		if errdefs.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (d *docker) Rename(ctx context.Context, from, to string) error {
	return d.change(ctx, "naming the container "+from+" "+to, func(ctx context.Context) error {
		_, err := d.api().ContainerRename(ctx, from, client.ContainerRenameOptions{NewName: to})
		return err
	})
}

func (d *docker) SetRestart(ctx context.Context, name, policy string) error {
	return d.change(ctx, "setting the restart policy of the container "+name, func(ctx context.Context) error {
		_, err := d.api().ContainerUpdate(ctx, name, client.ContainerUpdateOptions{
			RestartPolicy: &container.RestartPolicy{Name: container.RestartPolicyMode(policy)},
		})
		return err
	})
}

func (d *docker) change(ctx context.Context, doing string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, engineChange)
	defer cancel()
	d.changes.Engine()
	return d.explain(doing, do(ctx))
}
