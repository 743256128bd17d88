package attestation

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
)

// How long answers of the cloud count. A server's state changes; that a stack owns it
// ends with the server; and a stack's id stays that of its name but for a new stack
// of the old name, in which nothing of the old one is found.
const (
	serverCounts = 5 * time.Second
	memberCounts = time.Minute
	stackCounts  = time.Hour
	// failureCounts is also how long a no counts.
	failureCounts = 5 * time.Second
)

// lookups are the answers of the cloud that are still valid.
type lookups struct {
	servers *memory[openstack.Server]
	members *memory[bool]
	stacks  *memory[openstack.Stack]
}

func newLookups(now func() time.Time) lookups {
	return lookups{
		servers: newMemory(now, func(openstack.Server) time.Duration { return serverCounts }),
		stacks:  newMemory(now, func(openstack.Stack) time.Duration { return stackCounts }),
		members: newMemory(now, func(member bool) time.Duration {
			if member {
				return memberCounts
			}
			return failureCounts
		}),
	}
}

// check is every check that needs no answer from the machine.
func (n *Nova) check(ctx context.Context, at place, serverID string, remote netip.Addr) error {
	key := at.instanceID + "/" + serverID
	server, err := n.lookups.servers.get(ctx, key, func(ctx context.Context) (openstack.Server, error) {
		return at.cloud.Server(ctx, serverID)
	})
	switch {
	case openstack.IsNotFound(err):
		return unknownServer(serverID, err)
	case err != nil:
		return cloudUnavailable("Nova", err)
	}
	project, err := at.cloud.Project(ctx)
	switch {
	case err != nil:
		return cloudUnavailable("Keystone", err)
	case server.ProjectID != project:
		return otherProject(serverID, server.ProjectID, project)
	case server.Status != "ACTIVE" && server.Status != "BUILD":
		return wrongStatus(serverID, server.Status)
	case n.SourceAddress && !slices.Contains(server.Addresses, remote.Unmap().WithZone("")):
		return wrongSource(serverID, remote, server.Addresses)
	}
	return n.member(ctx, at, serverID, key)
}

// member checks that the server is a resource of the instance's stack, at any depth.
func (n *Nova) member(ctx context.Context, at place, serverID, key string) error {
	stackKey := at.instanceID + "/" + at.stackID
	stack, err := n.lookups.stacks.get(ctx, stackKey, func(ctx context.Context) (openstack.Stack, error) {
		return at.cloud.Stack(ctx, at.stackID)
	})
	switch {
	case openstack.IsNotFound(err):
		return stackGone(serverID, at.stackID, err)
	case err != nil:
		return cloudUnavailable("Heat", err)
	}
	member, err := n.lookups.members.get(ctx, key+"/"+stack.ID, func(ctx context.Context) (bool, error) {
		return at.cloud.Owns(ctx, stack, serverID)
	})
	switch {
	case openstack.IsNotFound(err):
		n.lookups.stacks.forget(stackKey) // another of this name may have taken its place
		return stackGone(serverID, at.stackID, err)
	case err != nil:
		return cloudUnavailable("Heat", err)
	case !member:
		return notInStack(serverID, stack)
	}
	return nil
}
