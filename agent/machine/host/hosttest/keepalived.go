package hosttest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

const keepalivedService = "keepalived.service"

// KeepalivedState is keepalived, which holds its address at once, or never.
type KeepalivedState struct {
	// Sample is the configuration that its package brings, as in the RHEL family; "" for none.
	Sample string
	// Refuses is what its check says of every configuration, "" if it takes all.
	Refuses string
	// Elsewhere says that another machine holds the address.
	Elsewhere bool
	// Loaded is the configuration that it runs with.
	Loaded string
}

type keepalived struct{ *Machine }

func (h keepalived) Check(_ context.Context, config []byte) error {
	h.changes.Read()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.Fail["keepalived"]; err != nil {
		return err
	}
	said := h.Keepalived.Refuses
	if !h.Installed[host.Keepalived] {
		said = "keepalived: no such program is installed"
	}
	if said == "" && len(config) > 0 {
		return nil
	}
	return &host.CommandError{Argv: []string{"keepalived"}, Code: 5, Output: said, Err: errors.New("exit status 5")}
}

func (m *Machine) bringSample() {
	if m.Keepalived.Sample != "" {
		m.Files[host.KeepalivedConfig] = FileState{m.Keepalived.Sample, 0o644}
	}
}

func (m *Machine) loadKeepalived() {
	m.stopKeepalived()
	m.Keepalived.Loaded = m.Files[host.KeepalivedConfig].Content
	if name, address := m.virtual(); address.IsValid() && !m.Keepalived.Elsewhere {
		m.Kernel.Addresses[name] = append(m.Kernel.Addresses[name], address)
	}
}

func (m *Machine) stopKeepalived() {
	name, address := m.virtual()
	m.Kernel.Addresses[name] = slices.DeleteFunc(m.Kernel.Addresses[name], func(a netip.Addr) bool { return a == address })
	m.Keepalived.Loaded = ""
}

// virtual is what the loaded configuration says: an interface, and the address that it is given.
func (m *Machine) virtual() (name string, address netip.Addr) {
	words := strings.Fields(m.Keepalived.Loaded)
	for i, word := range words[:max(0, len(words)-2)] {
		switch word {
		case "interface":
			name = words[i+1]
		case "virtual_ipaddress":
			address, _ = netip.ParseAddr(words[i+2])
		}
	}
	return name, address
}
