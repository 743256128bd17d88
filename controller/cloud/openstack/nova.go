package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
)

// novaServer is a server in Nova's API 2.1, which needs no microversion.
type novaServer struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	ProjectID  string `json:"tenant_id"`
	Zone       string `json:"OS-EXT-AZ:availability_zone"`
	Hypervisor string `json:"OS-EXT-SRV-ATTR:hypervisor_hostname"`
	Addresses  map[string][]struct {
		Address string `json:"addr"`
	} `json:"addresses"`
}

func (s novaServer) server() Server {
	out := Server{ID: s.ID, Name: s.Name, Status: s.Status, ProjectID: s.ProjectID, AvailabilityZone: s.Zone, Hypervisor: s.Hypervisor}
	for _, network := range slices.Sorted(maps.Keys(s.Addresses)) {
		for _, a := range s.Addresses[network] {
			out.Addresses = appendAddress(out.Addresses, a.Address)
		}
	}
	return out
}

// appendAddress adds an address, unless the text is none.
func appendAddress(to []netip.Addr, text string) []netip.Addr {
	if a, err := netip.ParseAddr(text); err == nil {
		return append(to, a)
	}
	return to
}

// Servers are those of the project, in Nova's order. One call for each page.
func (c *Cloud) Servers(ctx context.Context) ([]Server, error) {
	found, err := list[novaServer](ctx, c, request{service: compute, path: "/servers/detail"}, "servers")
	out := make([]Server, len(found))
	for i, s := range found {
		out[i] = s.server()
	}
	return out, err
}

// Server is one server; IsNotFound if the project has none of this id. One call.
func (c *Cloud) Server(ctx context.Context, id string) (Server, error) {
	var answer struct {
		Server novaServer `json:"server"`
	}
	err := c.do(ctx, request{service: compute, method: http.MethodGet, path: "/servers/{server_id}", values: []string{id},
		ok: []int{http.StatusOK}, into: &answer})
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusForbidden {
		// So Nova answers for a server of another project.
		e.missing, e.denied = true, false
		e.Message = "it is of another project, or the credential has no role that may see servers (403)"
	}
	return answer.Server.server(), err
}

// SetMetadata writes one item of a server's metadata. One call. IsForbidden only if
// this credential has never written any: Nova answers 403 as well when a quota is full.
func (c *Cloud) SetMetadata(ctx context.Context, serverID, key, value string) error {
	err := c.do(ctx, request{service: compute, method: http.MethodPut, path: "/servers/{server_id}/metadata/{key}", values: []string{serverID, key},
		body: map[string]any{"meta": map[string]string{key: value}}, ok: []int{http.StatusOK}})
	var e *Error
	switch {
	case err == nil:
		c.wrote.Store(true)
	case errors.As(err, &e) && e.denied && c.wrote.Load():
		e.denied = false
		e.Message = fmt.Sprintf("Nova refuses a call that it allowed this credential before (%d): the quota of metadata items is full, or the permission was removed", e.Status)
	}
	return err
}

// DeleteMetadata removes one item of a server's metadata; one that is not there is
// no error. One call.
func (c *Cloud) DeleteMetadata(ctx context.Context, serverID, key string) error {
	err := c.do(ctx, request{service: compute, method: http.MethodDelete, path: "/servers/{server_id}/metadata/{key}", values: []string{serverID, key},
		ok: []int{http.StatusNoContent}})
	if IsNotFound(err) {
		return nil
	}
	return err
}
