package openstack

import "net/netip"

// Stack is a Heat stack that no other stack contains.
type Stack struct {
	ID, Name string
	// Status is Heat's action and status, such as CREATE_IN_PROGRESS.
	Status string
	// StatusReason is Heat's own words. They can name what went wrong, and contain
	// what a template's author put there.
	StatusReason string
}

// Resource is one resource of a stack or of a stack nested in it.
type Resource struct {
	// Name is the resource's key in its template.
	Name string
	// Type is such as OS::Nova::Server. A nested template has its file's name.
	Type string
	// PhysicalID is the id in the service that has it: of a server, a port, a nested
	// stack. Empty while it is not made yet.
	PhysicalID string
	Status     string
	// StackID is the stack that it stands in itself, which a nested one is too.
	StackID string
}

// Server is a Nova server.
type Server struct {
	ID, Name string
	// Status is such as ACTIVE, BUILD or ERROR.
	Status           string
	ProjectID        string
	AvailabilityZone string
	// Hypervisor is the host name of its hypervisor, empty if the credential may
	// not see it, which by default only administrators may.
	Hypervisor string
	// Addresses are all that Nova knows of, fixed and floating ones.
	Addresses []netip.Addr
}

// Port is a Neutron port.
type Port struct {
	ID, Name string
	// DeviceID is the id of the server that has it; empty for none. Ports of routers
	// and of DHCP have other ids there.
	DeviceID string
	// Addresses are its fixed IPs in Neutron's order.
	Addresses []netip.Addr
}

// FloatingIP is a floating IP that stands for a fixed one of a port.
type FloatingIP struct {
	ID      string
	Address netip.Addr
	// PortID is empty if it is not in use.
	PortID string
	// Fixed is the address of the port that it stands for.
	Fixed netip.Addr
}

// Volume is a Cinder volume.
type Volume struct {
	ID, Name, Status string
	// SizeGiB is in units of 2^30 bytes.
	SizeGiB int64
	// AttachedTo are the ids of the servers that have it, in Cinder's order.
	AttachedTo []string
}
