package registryserver

import (
	"context"

	"github.com/nodehitch/nodehitch/shared/api"
)

// owned is what the role has on this machine, as the inventory records it.
type owned struct {
	Image *image `json:"image,omitempty"`
	// Bringing says that images were being loaded or pulled, and were not on the disk yet.
	Bringing bool `json:"bringing,omitempty"`
	// Making is the name of a container that was being made, and was not on the disk yet.
	Making string `json:"making,omitempty"`
	// Refused is an image file that contains no registry.
	Refused *refused `json:"refused,omitempty"`
	// Proxy identifies the proxy that the engine was restarted with, see proxy.go.
	Proxy string `json:"proxy,omitempty"`
	// Ordered says that the engine starts after the volume with the data, see ordering.go.
	Ordered bool `json:"ordered,omitempty"`
}

// image is an image in the engine.
type image struct {
	// Source is where it came from, see sourceOf.
	Source string `json:"source"`
	ID     string `json:"id"`
	// Name is a tag that it had.
	Name string `json:"name"`
}

type refused struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
}

// inventoryKind is this role's member of the inventory.
const inventoryKind = "registry"

func (s *step) owned() (o owned, err error) {
	return o, s.inventory.Read(inventoryKind, &o)
}

// own changes the inventory.
func (s *step) own(change func(*owned)) error {
	o, err := s.owned()
	if err != nil {
		return err
	}
	change(&o)
	return s.inventory.Write(inventoryKind, o)
}

// ownOnDisk changes the inventory when what the engine has stored is on the disk.
func (s *step) ownOnDisk(ctx context.Context, change func(*owned)) error {
	if err := s.Host.Engine.Sync(ctx); err != nil {
		return engineProblem(err)
	}
	return s.own(change)
}

// sourceOf identifies where the image comes from.
func sourceOf(i api.RegistryImage) string {
	if i.File != nil {
		return "sha256:" + i.File.Sha256
	}
	return i.Reference
}
