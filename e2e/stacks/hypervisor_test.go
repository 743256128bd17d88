package stacks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// hypervisor boots a lab machine for each server that Nova has, and ends those whose
// server is gone. Nova's fake driver says that they are there; this makes it true.
type hypervisor struct {
	t     *testing.T
	lab   *lab.Lab
	cloud *openstack.Cloud

	mutex    sync.Mutex
	machines map[string]lab.Node   // by server id
	at       map[string]netip.Addr // by server id: the address of its machine
	disks    map[string]lab.Disk   // by volume id; they outlive servers
	held     map[string]string     // by volume id: the server whose machine has it
	off      map[string]bool       // by project id: its servers have no machines
	begun    map[string]bool       // by server id: its machine is booting
	booting  sync.WaitGroup
	brought  []brought
	engine   lab.Engine   // of machines that boot from now on
	kubelet  *lab.Kubelet // the same
}

// newHypervisor keeps the machines in line with Nova until the test ends.
func newHypervisor(t *testing.T, l *lab.Lab, cloud *openstack.Cloud) *hypervisor {
	h := &hypervisor{t: t, lab: l, cloud: cloud, machines: map[string]lab.Node{}, at: map[string]netip.Addr{}, disks: map[string]lab.Disk{},
		held: map[string]string{}, off: map[string]bool{}, begun: map[string]bool{}}
	// Stacks are deleted in cleanups, when the test's own context has ended.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
		h.booting.Wait()
		for _, m := range h.all() {
			sitetest.Explain(t, m, []string{"cloud-init", "status", "--long"})
			if err := m.Destroy(); err != nil {
				t.Error(err)
			}
		}
	})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if err := h.reconcile(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("the hypervisor: %v", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return h
}

// reconcile brings the machines in line with Nova once. Machines end before others begin,
// because a volume is in one machine at a time.
func (h *hypervisor) reconcile(ctx context.Context) error {
	list, err := h.servers(ctx)
	if err != nil {
		// Some tests stop Nova; they check the effect themselves.
		h.t.Logf("the hypervisor: %v", err)
		return nil
	}
	if err := h.drop(list); err != nil {
		return err
	}
	var errs []error
	for _, s := range list {
		if m := h.machine(s.ID); m != nil {
			errs = append(errs, h.plug(ctx, m, s), h.connect(ctx, m, s))
		} else if s.Status == "ACTIVE" && h.claim(s) {
			h.booting.Go(func() {
				if err := h.power(ctx, s); err != nil && ctx.Err() == nil {
					h.t.Errorf("the hypervisor: %v", err)
				}
			})
		}
	}
	return errors.Join(errs...)
}

// claim says whether a server is still to be booted. A replacement has the port,
// and so the address, of a server that is about to go.
func (h *hypervisor) claim(s server) bool {
	address, err := s.address()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	taken := slices.Contains(slices.Collect(maps.Values(h.at)), address)
	if err != nil || taken || h.off[s.TenantID] || h.begun[s.ID] {
		return false
	}
	h.begun[s.ID] = true
	return true
}

// power boots the machine of a server: a storage server's in a VM, because a container has
// no NFS server.
func (h *hypervisor) power(ctx context.Context, s server) error {
	userData, err := h.cloud.UserData(ctx, s.ID)
	if err != nil {
		return fmt.Errorf("the user_data of %s: %w", s.Name, err)
	}
	spec := lab.Spec{Name: hostName(s), ServerID: s.ID, UserData: userData, Metadata: true}
	if spec.Address, err = s.address(); err != nil {
		return err
	}
	boot := h.lab.Nspawn
	if strings.Contains(s.Name, "storage") {
		boot, spec.Cold = h.lab.VM, true
	} else {
		spec.Engine, spec.Kubelet = h.equipment()
	}
	began := time.Now()
	node, err := boot(ctx, spec)
	if err != nil {
		return fmt.Errorf("booting %s: %w", s.Name, err)
	}
	h.t.Logf("server %s (%s) is up at %v after %.1f s", s.Name, s.ID, spec.Address, time.Since(began).Seconds())
	h.mutex.Lock()
	h.machines[s.ID], h.at[s.ID] = node, spec.Address
	files := slices.Clone(h.brought)
	h.mutex.Unlock()
	for _, f := range files {
		if strings.Contains(s.Name, f.name) {
			if err := node.Push(ctx, f.path, 0o600, f.content); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop ends the machines whose servers are gone.
func (h *hypervisor) drop(list []server) error {
	var errs []error
	for id, m := range h.all() {
		if slices.ContainsFunc(list, func(s server) bool { return s.ID == id }) {
			continue
		}
		h.t.Logf("server %s (%s) is gone", m.Name(), id)
		errs = append(errs, m.Destroy())
		for _, volume := range h.heldBy(id) {
			h.hold(volume, "")
		}
		h.mutex.Lock()
		delete(h.machines, id)
		delete(h.at, id)
		h.mutex.Unlock()
	}
	return errors.Join(errs...)
}
