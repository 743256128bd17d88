package host

import (
	"context"
	"io"
)

// Container is what the engine knows of a container.
type Container struct {
	ID, Name string
	// Image is the id of the image that it was made of.
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
	// Ports are those of this machine that it was made to have.
	Ports []int
}

// ContainerSpec is a container that is to be made.
type ContainerSpec struct {
	Name, Image, Restart string
	Labels               map[string]string
	// Port of this machine, on all its addresses, leads to TCP port Inside.
	Port, Inside int
	// Source is a directory of this machine, seen in the container as Target. Where it
	// does not exist the container is not made: the engine never makes it.
	Source, Target string
}

// Engine is the machine's container engine, by the Docker Engine API. Errors:
// *EngineDownError if none answers, *EngineError with the engine's own words.
// Nothing is taken from the environment (DOCKER_HOST): it is always this machine's.
type Engine interface {
	// Version of the engine that answers.
	Version(ctx context.Context) (string, error)
	// InsecureRegistries are what the running engine takes for insecure: servers as
	// in image names, and networks (CIDR), its own for loopback among them.
	InsecureRegistries(ctx context.Context) ([]string, error)
	// Container by its name, nil if there is none.
	Container(ctx context.Context, name string) (*Container, error)
	// Running are the names of the containers that run.
	Running(ctx context.Context) ([]string, error)
	// Image is the id of what a reference or an id names, "" if it is not there.
	Image(ctx context.Context, reference string) (string, error)
	// Load loads an archive of images, and returns what the engine says that it held:
	// name:tag, or an id where an image has no name.
	Load(ctx context.Context, archive io.Reader) ([]string, error)
	// Pull fetches an image. The engine goes to the registry, by its own proxy.
	Pull(ctx context.Context, reference string) error
	// Create makes a container and does not start it.
	Create(ctx context.Context, c ContainerSpec) error
	Start(ctx context.Context, name string) error
	// Stop asks the container to end, and kills it after ten seconds. A paused one is
	// stopped too.
	Stop(ctx context.Context, name string) error
	Unpause(ctx context.Context, name string) error
	// Remove removes a container, running or not. What it has written to directories of
	// this machine stays. That there is none is no error.
	Remove(ctx context.Context, name string) error
	Rename(ctx context.Context, from, to string) error
	// SetRestart changes the restart policy.
	SetRestart(ctx context.Context, name, policy string) error
}

// EngineDownError says that no engine answers.
type EngineDownError struct{ Detail string }

func (e *EngineDownError) Error() string { return "the container engine does not answer: " + e.Detail }

// EngineError is a refusal of the engine.
type EngineError struct {
	// Doing is what it was asked for, Words what it said.
	Doing, Words string
}

func (e *EngineError) Error() string { return e.Doing + ": " + e.Words }
