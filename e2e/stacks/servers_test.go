package stacks

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
)

// server is one as Nova has it.
type server struct {
	ID, Name, Status string
	TenantID         string `json:"tenant_id"`
	Addresses        map[string][]struct {
		Addr string
		Type string `json:"OS-EXT-IPS:type"`
	}
	Volumes []struct{ ID string } `json:"os-extended-volumes:volumes_attached"`
}

// brought is a file that machines whose server's name holds a text find when they are up.
type brought struct {
	name, path string
	content    []byte
}

// bring gives machines whose server's name contains this text a file when they are up.
func (h *hypervisor) bring(name, path string, content []byte) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.brought = slices.DeleteFunc(h.brought, func(b brought) bool { return b.name == name && b.path == path })
	h.brought = append(h.brought, brought{name, path, content})
}

// equip gives containers that boot from now on a container engine, and a kubelet unless it is nil.
func (h *hypervisor) equip(e lab.Engine, k *lab.Kubelet) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.engine, h.kubelet = e, k
}

func (h *hypervisor) equipment() (lab.Engine, *lab.Kubelet) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.engine, h.kubelet
}

// servers are those of all projects.
func (h *hypervisor) servers(ctx context.Context) ([]server, error) {
	var answer struct{ Servers []server }
	err := h.cloud.Admin.Call(ctx, http.MethodGet, openstack.NovaURL+"/servers/detail?all_tenants=1", nil, &answer)
	return answer.Servers, err
}

// leaveOff sets whether the servers of a project stay without machines.
func (h *hypervisor) leaveOff(projectID string, off bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.off[projectID] = off
}

// machine is the one of a server, nil if it has not booted.
func (h *hypervisor) machine(serverID string) lab.Node {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.machines[serverID]
}

func (h *hypervisor) all() map[string]lab.Node {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return maps.Clone(h.machines)
}

func hostName(s server) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s.Name))
	return fmt.Sprintf("%.20s-%.8s", strings.Trim(name, "-"), s.ID)
}

// address is the server's in the lab's network.
func (s server) address() (netip.Addr, error) {
	for _, network := range s.Addresses {
		for _, entry := range network {
			if a, err := netip.ParseAddr(entry.Addr); err == nil && lab.Subnet.Contains(a) {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("server %s has no address in %v: %v", s.ID, lab.Subnet, s.Addresses)
}

// connect gives a machine the address of the port that its server has now.
func (h *hypervisor) connect(ctx context.Context, m lab.Node, s server) error {
	now, err := s.address()
	h.mutex.Lock()
	before := h.at[s.ID]
	h.mutex.Unlock()
	if err != nil || now == before { // without an address it is between two ports
		return nil
	}
	_, err = m.Exec(ctx, "sh", "-euc", `device=$(ip -4 -o address show to "$1" | cut -d " " -f 2)
		ip address delete "$1" dev "$device"
		ip address add "$2" dev "$device"
		ip route replace "$3" via "$4"`, "sh",
		netip.PrefixFrom(before, lab.Subnet.Bits()).String(), netip.PrefixFrom(now, lab.Subnet.Bits()).String(),
		openstack.MetadataAddress.String(), lab.Gateway.String())
	if err != nil {
		return fmt.Errorf("giving %s its address %v: %w", s.Name, now, err)
	}
	h.t.Logf("server %s (%s) was at %v, is at %v", s.Name, s.ID, before, now)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.at[s.ID] = now
	return nil
}
