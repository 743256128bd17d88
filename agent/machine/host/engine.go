package host

import (
	"context"
	"io"
)

// Container is what the engine knows about a container.
type Container struct {
	ID, Name string
	// Image is the id of the image that it was made from.
	Image string
	// Status is created, running, paused, restarting, removing, exited or dead. Detail is
	// why it is not running, in the engine's words; "" if it has none.
	Status, Detail string
	ExitCode       int
	// PID is its first process, 0 if it does not run.
	PID int
	// Restart is the name of its restart policy.
	Restart string
	Labels  map[string]string
	// Ports are the ports of this machine that it was made with.
	Ports []int
}

// ContainerSpec describes a container to make.
type ContainerSpec struct {
	Name, Image, Restart string
	Labels               map[string]string
	// Port of this machine, on all its addresses, leads to TCP port Inside.
	Port, Inside int
	// Source is a directory of this machine, seen in the container as Target. If it does not
	// exist, the container is not made: the engine never creates it.
	Source, Target string
}

// Engine is the machine's container engine, by the Docker Engine API. Errors:
// *EngineDownError if none answers, *EngineError with the engine's own message. The
// environment (DOCKER_HOST) is ignored: it is always this machine's engine.
type Engine interface {
	// Version of the engine that answers.
	Version(ctx context.Context) (string, error)
	// InsecureRegistries are what the running engine treats as insecure: servers as in image
	// names, and networks (CIDR), including its default for loopback.
	InsecureRegistries(ctx context.Context) ([]string, error)
	// ContainerdStore is the version of an engine whose images containerd stores, "" if the
	// engine stores them itself.
	ContainerdStore(ctx context.Context) (version string, err error)
	// Container by its name, nil if there is none.
	Container(ctx context.Context, name string) (*Container, error)
	// Containers are all containers. It waits while one is being started.
	Containers(ctx context.Context) ([]Container, error)
	// Image is the id of the image with that reference or id, "" if there is none.
	Image(ctx context.Context, reference string) (string, error)
	// Load loads an archive of images and returns what the engine found in it: name:tag, or
	// the id of an image without a name.
	Load(ctx context.Context, archive io.Reader) ([]string, error)
	// Pull makes the engine pull an image, through the engine's own proxy.
	Pull(ctx context.Context, reference string) error
	// RemoveImage removes a name of an image, and the image if it has no other. It is no
	// error if there is none, but if a container is made of it.
	RemoveImage(ctx context.Context, reference string) error
	// Sync returns when what the engine has stored is on the disk. The engine itself does not
	// flush the files of images and containers: after a power failure they may be empty,
	// while the engine has them as complete.
	Sync(ctx context.Context) error
	// Create makes a container and does not start it.
	Create(ctx context.Context, c ContainerSpec) error
	Start(ctx context.Context, name string) error
	// Stop asks the container to end, and kills it after ten seconds. A paused one is
	// stopped too.
	Stop(ctx context.Context, name string) error
	Unpause(ctx context.Context, name string) error
	// Remove removes a container, running or not. What it has written to directories of this
	// machine stays. It is no error if there is none.
	Remove(ctx context.Context, name string) error
	Rename(ctx context.Context, from, to string) error
	// SetRestart changes the restart policy.
	SetRestart(ctx context.Context, name, policy string) error
}

// EngineDownError says that no engine answers.
type EngineDownError struct{ Detail string }

func (e *EngineDownError) Error() string { return "the container engine does not answer: " + e.Detail }

// EngineError says that the engine refused a request.
type EngineError struct {
	// Doing is what was requested, Message the engine's answer.
	Doing, Message string
}

func (e *EngineError) Error() string { return e.Doing + ": " + e.Message }
