package stack

import (
	"context"
	"errors"
	"strings"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
)

// The types of resources that a topology is made of.
const (
	typeServer   = "OS::Nova::Server"
	typePort     = "OS::Neutron::Port"
	typeFloating = "OS::Neutron::FloatingIP"
	typeVolume   = "OS::Cinder::Volume"
)

// groups are the types of resources that make several of one kind: scaling aspects.
var groups = map[string]bool{
	"OS::Heat::AutoScalingGroup":         true,
	"OS::Heat::InstanceGroup":            true,
	"OS::Heat::ResourceGroup":            true,
	"AWS::AutoScaling::AutoScalingGroup": true,
}

// contents is a stack as the services report it.
type contents struct {
	stack     openstack.Stack
	resources []openstack.Resource
	// What follows is all that the project has, by id.
	servers  map[string]openstack.Server
	ports    map[string]openstack.Port
	volumes  map[string]openstack.Volume
	floating []openstack.FloatingIP
}

// errNoStack says that Heat has no such stack. A 404 of another service is something else.
var errNoStack = errors.New("there is no such stack")

// read asks each service once, and only those that the stack has something of. wanted is
// the stack's id or name.
func read(ctx context.Context, cloud *openstack.Cloud, wanted string) (*contents, error) {
	s := &contents{}
	var err error
	if s.stack, err = cloud.Stack(ctx, wanted); err == nil {
		s.resources, err = cloud.Resources(ctx, s.stack)
	}
	if openstack.IsNotFound(err) {
		err = errNoStack
	}
	if err != nil {
		return nil, err
	}
	if s.has(typeServer) {
		if s.servers, err = byID(ctx, cloud.Servers, func(v openstack.Server) string { return v.ID }); err != nil {
			return nil, err
		}
		if err := s.missing(ctx, cloud); err != nil {
			return nil, err
		}
	}
	if s.has(typePort) || s.has(typeFloating) {
		if s.ports, err = byID(ctx, cloud.Ports, func(v openstack.Port) string { return v.ID }); err != nil {
			return nil, err
		}
		// A floating IP counts whether the stack has made it or an operator. A Neutron
		// without routers has no such list.
		s.floating, err = cloud.FloatingIPs(ctx)
		if err != nil && (s.hasFloating() || !openstack.IsNotFound(err)) {
			return nil, err
		}
	}
	if s.has(typeVolume) {
		if s.volumes, err = byID(ctx, cloud.Volumes, func(v openstack.Volume) string { return v.ID }); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// missing asks for each server that Heat has and Nova's list has not: from its list Nova
// silently leaves out what is in a cell that it does not reach. Only one that it
// says is not there is gone.
func (s *contents) missing(ctx context.Context, cloud *openstack.Cloud) error {
	for _, r := range s.resources {
		_, listed := s.servers[r.PhysicalID]
		if listed || r.Type != typeServer || r.PhysicalID == "" || strings.HasPrefix(r.Status, "DELETE_") {
			continue
		}
		found, err := cloud.Server(ctx, r.PhysicalID)
		switch {
		case err == nil && strings.HasSuffix(found.Status, "DELETED"): // or SOFT_DELETED
		case err == nil:
			s.servers[r.PhysicalID] = found
		case !openstack.IsNotFound(err):
			return err
		}
	}
	return nil
}

func byID[T any](ctx context.Context, list func(context.Context) ([]T, error), id func(T) string) (map[string]T, error) {
	all, err := list(ctx)
	out := make(map[string]T, len(all))
	for _, v := range all {
		out[id(v)] = v
	}
	return out, err
}

// has reports whether the stack has made a resource of the type.
func (s *contents) has(kind string) bool {
	for _, r := range s.resources {
		if r.Type == kind && r.PhysicalID != "" {
			return true
		}
	}
	return false
}

func (s *contents) hasFloating() bool {
	for _, r := range s.resources {
		if strings.HasPrefix(r.Type, typeFloating) && r.PhysicalID != "" {
			return true
		}
	}
	return false
}
