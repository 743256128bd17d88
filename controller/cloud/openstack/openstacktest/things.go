package openstacktest

import (
	"maps"
	"slices"
)

// Stack is a stack that no other one contains.
type Stack struct {
	ID, Name string
	// Status is such as CREATE_COMPLETE.
	Status, Reason string
	Resources      []Resource
	// Project is the project's id, the only one's if it is empty. Stacks of others
	// are listed, as for an administrator.
	Project string
}

// Resource is one resource of a stack. One that has Nested is itself a stack, whose id
// is PhysicalID.
type Resource struct {
	Name, Type, PhysicalID string
	// Status is CREATE_COMPLETE if it is empty.
	Status string
	Nested []Resource
}

// Server is a Nova server of the project, or of Project if that is set.
type Server struct {
	ID, Name string
	// Status is ACTIVE if it is empty.
	Status   string
	Project  string
	Zone     string
	Metadata map[string]string
	// Addresses by network.
	Addresses map[string][]string
	// Unlisted is one in a cell that Nova does not reach: its list lacks it.
	Unlisted bool
}

// Port is a Neutron port.
type Port struct {
	ID, Name, DeviceID string
	Addresses          []string
}

// FloatingIP is a floating IP; PortID and Fixed are empty if it is not in use.
type FloatingIP struct{ ID, Address, PortID, Fixed string }

// Volume is a Cinder volume.
type Volume struct {
	ID, Name   string
	SizeGiB    int
	AttachedTo []string
}

// Put adds stacks, servers, ports, floating IPs and volumes, each in the place of the
// one that has its id.
func (c *Cloud) Put(things ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, thing := range things {
		switch v := thing.(type) {
		case Stack:
			c.state.stacks = put(c.state.stacks, v, func(s Stack) string { return s.ID })
		case Server:
			v.Metadata = maps.Clone(v.Metadata)
			c.state.servers = put(c.state.servers, v, func(s Server) string { return s.ID })
		case Port:
			c.state.ports = put(c.state.ports, v, func(p Port) string { return p.ID })
		case FloatingIP:
			c.state.floating = put(c.state.floating, v, func(f FloatingIP) string { return f.ID })
		case Volume:
			c.state.volumes = put(c.state.volumes, v, func(v Volume) string { return v.ID })
		default:
			panic("openstacktest: there is no such thing in a cloud")
		}
	}
}

func put[T any](list []T, v T, id func(T) string) []T {
	if i := slices.IndexFunc(list, func(o T) bool { return id(o) == id(v) }); i >= 0 {
		list[i] = v
		return list
	}
	return append(list, v)
}

// Remove takes away whatever has this id.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.stacks = slices.DeleteFunc(c.state.stacks, func(s Stack) bool { return s.ID == id })
	c.state.servers = slices.DeleteFunc(c.state.servers, func(s Server) bool { return s.ID == id })
	c.state.ports = slices.DeleteFunc(c.state.ports, func(p Port) bool { return p.ID == id })
	c.state.floating = slices.DeleteFunc(c.state.floating, func(f FloatingIP) bool { return f.ID == id })
	c.state.volumes = slices.DeleteFunc(c.state.volumes, func(v Volume) bool { return v.ID == id })
}

// Metadata is the metadata of a server, as its metadata service would show it.
func (c *Cloud) Metadata(serverID string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.state.server(serverID); s != nil {
		return maps.Clone(s.Metadata)
	}
	return nil
}

func (s *state) server(id string) *Server {
	if i := slices.IndexFunc(s.servers, func(v Server) bool { return v.ID == id }); i >= 0 {
		return &s.servers[i]
	}
	return nil
}

func (s *state) stack(id string) *Stack {
	if i := slices.IndexFunc(s.stacks, func(v Stack) bool { return v.ID == id }); i >= 0 {
		return &s.stacks[i]
	}
	return nil
}
