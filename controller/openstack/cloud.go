package openstack

import (
	"context"
	"errors"
)

// Cloud is one project of one cloud, by one credential. It logs in at the first call,
// and again when its token has expired. Errors of its methods are *Error, or that of
// the context. Its methods may be called at the same time.
type Cloud struct{ name string }

// Name says which cloud it is, for messages: where its credential comes from.
func (c *Cloud) Name() string { return c.name }

var errTODO = errors.New("not there yet")

// Stack is the stack of this id or name; IsNotFound where there is none, or none
// any more. One call.
func (c *Cloud) Stack(ctx context.Context, idOrName string) (Stack, error) { return Stack{}, errTODO }

// Resources are those of the stack and of the stacks nested in it, five deep. One call.
func (c *Cloud) Resources(ctx context.Context, s Stack) ([]Resource, error) { return nil, errTODO }

// Owns says whether the stack, or one nested in it, five deep, has a resource with
// this physical id. One call.
func (c *Cloud) Owns(ctx context.Context, s Stack, physicalID string) (bool, error) {
	return false, errTODO
}

// Servers are those of the project, in Nova's order. One call for each page.
func (c *Cloud) Servers(ctx context.Context) ([]Server, error) { return nil, errTODO }

// Server is one server; IsNotFound where there is none. One call.
func (c *Cloud) Server(ctx context.Context, id string) (Server, error) { return Server{}, errTODO }

// SetMetadata writes one item of a server's metadata. One call.
func (c *Cloud) SetMetadata(ctx context.Context, serverID, key, value string) error { return errTODO }

// DeleteMetadata removes one item of a server's metadata; one that is not there is
// no error. One call.
func (c *Cloud) DeleteMetadata(ctx context.Context, serverID, key string) error { return errTODO }

// Ports are those of the project, in Neutron's order. One call for each page.
func (c *Cloud) Ports(ctx context.Context) ([]Port, error) { return nil, errTODO }

// FloatingIPs are those of the project. One call for each page.
func (c *Cloud) FloatingIPs(ctx context.Context) ([]FloatingIP, error) { return nil, errTODO }

// Volumes are those of the project. One call for each page.
func (c *Cloud) Volumes(ctx context.Context) ([]Volume, error) { return nil, errTODO }
