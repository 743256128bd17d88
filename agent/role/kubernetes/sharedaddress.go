package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/inventory"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	keepalivedService = kubeadm.KeepalivedService
	keepalivedMode    = 0o600
)

// addressGroup is the group of the actions for the shared address.
const addressGroup = "shared address"

// ownedAddress is what the agent has done for the shared address, as the inventory records it.
type ownedAddress struct {
	// Config says that keepalived's configuration is ours.
	Config bool `json:"config,omitempty"`
	// Loaded identifies the configuration that keepalived has loaded last.
	Loaded string `json:"loaded,omitempty"`
}

const addressKind = "keepalived"

func (s *controlPlaneStep) inventory() inventory.File {
	return inventory.File{Files: s.Host.Files, Path: filepath.Join(s.Kubeadm.StateDirectory, "inventory.json")}
}

func (s *controlPlaneStep) ownedAddress() (o ownedAddress, err error) {
	return o, s.inventory().Read(addressKind, &o)
}

// ownAddress changes the inventory.
func (s *controlPlaneStep) ownAddress(o ownedAddress) error {
	before, err := s.ownedAddress()
	if err != nil || o == before {
		return err
	}
	return s.inventory().Write(addressKind, o)
}

// sharedAddress plans that keepalived gives the shared address to one master at a time. Only a
// master that has a control plane, or makes the first one, takes part: at another one nothing
// would answer.
func (s *controlPlaneStep) sharedAddress(ctx context.Context, desired *api.NodeConfig) ([]converge.Action, error) {
	have, err := s.ownedAddress()
	if err != nil {
		return nil, err
	}
	if desired.ControlPlane.SharedAddress == "" {
		return s.leaveAddress(have), nil
	}
	serves, err := s.Kubeadm.Serves(desired)
	switch {
	case !serves:
		return s.leaveAddress(have), err
	case err != nil:
		return nil, err
	}
	_, err = s.Host.Files.Mode(host.KeepalivedConfig)
	switch {
	case err == nil && !have.Config:
		return nil, converge.Wait(api.ReasonAddressUnavailable,
			"%s is not nodehitch's, so this master does not take part in holding %s: move that file away; the agent then writes its own", host.KeepalivedConfig, desired.ControlPlane.SharedAddress)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	content, err := s.keepalivedConfig(desired)
	if err != nil {
		return nil, err
	}
	install, err := software.Install(ctx, s.Host, software.ProxyOf(desired), addressGroup, host.Keepalived)
	if err != nil {
		return nil, err
	}
	actions := slices.Clone(install)
	for i := range actions { // the package may bring a sample: that file is ours, as there was none
		do := actions[i].Do
		actions[i].Do = func(ctx context.Context) error {
			if err := s.ownAddress(ownedAddress{Config: true}); err != nil {
				return err
			}
			return do(ctx)
		}
	}
	do := func(summary string, f func(context.Context) error) {
		actions = append(actions, converge.Action{Summary: summary, Group: addressGroup, Do: f})
	}
	same, err := s.Host.Files.Same(host.KeepalivedConfig, content, keepalivedMode)
	if err != nil {
		return nil, err
	}
	if !same {
		do("write "+host.KeepalivedConfig, func(ctx context.Context) error { return s.writeKeepalived(ctx, content) })
	}
	unit, err := s.Host.Units.Unit(ctx, keepalivedService)
	if err != nil {
		return nil, err
	}
	if loaded := identity(content); !same || have.Loaded != loaded || !runs(unit) || unit.File == "disabled" {
		do("let keepalived hold "+desired.ControlPlane.SharedAddress, func(ctx context.Context) error {
			if err := s.loadKeepalived(ctx); err != nil {
				return err
			}
			return s.ownAddress(ownedAddress{Config: true, Loaded: loaded})
		})
	}
	return actions, nil
}

func identity(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func runs(unit host.Unit) bool { return unit.Active == "active" || unit.Active == "reloading" }

// writeKeepalived puts a configuration in place that keepalived accepts.
func (s *controlPlaneStep) writeKeepalived(ctx context.Context, content []byte) error {
	err := s.Host.Keepalived.Check(ctx, content)
	if refusal := host.Refusal(err); refusal != nil {
		return converge.Wait(api.ReasonAddressUnavailable, "keepalived refuses its configuration, which is not put in force: %s", cmp.Or(refusal.Output, refusal.Error()))
	}
	if err != nil {
		return err
	}
	if err := s.ownAddress(ownedAddress{Config: true}); err != nil {
		return err
	}
	return s.Host.Files.Write(host.KeepalivedConfig, content, keepalivedMode)
}

// loadKeepalived never restarts keepalived: the address would move.
func (s *controlPlaneStep) loadKeepalived(ctx context.Context) error {
	unit, err := s.Host.Units.Unit(ctx, keepalivedService)
	if err != nil {
		return err
	}
	if unit.File == "disabled" {
		err = errors.Join(s.Host.Units.Enable(ctx, keepalivedService), s.Host.Units.Reload(ctx))
	}
	switch {
	case err != nil:
	case runs(unit):
		err = s.Host.Units.ReloadUnit(ctx, keepalivedService)
	default:
		err = s.Host.Units.Start(ctx, keepalivedService)
	}
	if err != nil {
		return converge.Wait(api.ReasonAddressUnavailable, "%v", err)
	}
	return nil
}

// leaveAddress plans that this machine no longer takes part. The package stays.
func (s *controlPlaneStep) leaveAddress(have ownedAddress) []converge.Action {
	if !have.Config {
		return nil
	}
	return []converge.Action{{Summary: "stop and disable keepalived, and remove " + host.KeepalivedConfig, Group: addressGroup, Do: func(ctx context.Context) error {
		unit, err := s.Host.Units.Unit(ctx, keepalivedService)
		if err != nil {
			return err
		}
		if unit.Loaded == "loaded" { // else the installation was not finished
			if err := s.Host.Units.Stop(ctx, keepalivedService); err != nil {
				return err
			}
			if err := errors.Join(s.Host.Units.Disable(ctx, keepalivedService), s.Host.Units.Reload(ctx)); err != nil {
				return err
			}
		}
		if err := s.Host.Files.Remove(host.KeepalivedConfig); err != nil {
			return err
		}
		return s.ownAddress(ownedAddress{})
	}}}
}

// readyWeight is what a ready API server counts. Without one on any master, one of them has the
// address nevertheless.
const readyWeight = 50

// keepalivedConfig is the same on each master, but for its interface, its address and its peers.
func (s *controlPlaneStep) keepalivedConfig(desired *api.NodeConfig) ([]byte, error) {
	shared, err := netip.ParseAddr(desired.ControlPlane.SharedAddress)
	if err != nil {
		return nil, err
	}
	endpoint, err := netip.ParseAddrPort(desired.Cluster.Endpoint)
	if err != nil {
		return nil, err
	}
	var own string
	var peers []string
	for _, m := range desired.Cluster.Masters {
		i := slices.IndexFunc(m.Addresses, func(a string) bool { return parsed(a).Is4() == shared.Is4() })
		switch {
		case m.ServerID == s.Kubeadm.ServerID && i >= 0:
			own = m.Addresses[i]
		case m.ServerID != s.Kubeadm.ServerID && i >= 0:
			peers = append(peers, m.Addresses[i])
		}
	}
	slices.Sort(peers)
	if own == "" {
		return nil, converge.Wait(api.ReasonAddressUnavailable, "this master has no address of the same IP version as %s, which the masters share", shared)
	}
	name, err := s.Kubeadm.InterfaceOf(own)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, converge.Wait(api.ReasonAddressUnavailable, "no interface of this machine has %s, its address in the topology, so none can have %s", own, shared)
	}
	// curl asks with a certificate of kubeadm's, so that an API server without anonymous access
	// answers too.
	const pki = "/etc/kubernetes/pki/"
	ask := []string{
		"/usr/bin/curl", "--silent", "--fail", "--globoff", "--output", "/dev/null", "--max-time", "3", "--noproxy", "*",
		"--cacert", pki + "ca.crt", "--cert", pki + "apiserver-kubelet-client.crt", "--key", pki + "apiserver-kubelet-client.key",
		fmt.Sprintf("https://%s/readyz", netip.AddrPortFrom(parsed(cmp.Or(s.Kubeadm.Address(desired.Cluster), own)), endpoint.Port())),
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by nodehitch-agent, which puts back what others change here.
# One master at a time holds the address of the cluster's endpoint: one whose API server is ready.
global_defs {
    enable_script_security
    script_user root
}
vrrp_script api_server {
    script "%s"
    interval 3
    timeout 5
    fall 3
    rise 1
    weight %d
}
vrrp_instance nodehitch {
    state BACKUP
    interface %s
    virtual_router_id %d
    priority 100
    advert_int 1
`, strings.Join(ask, " "), readyWeight, name, routerID(shared))
	if len(peers) > 0 { // without a peer keepalived takes no unicast
		fmt.Fprintf(&b, "    unicast_src_ip %s\n    unicast_peer {\n        %s\n    }\n", own, strings.Join(peers, "\n        "))
	}
	fmt.Fprintf(&b, "    track_script {\n        api_server\n    }\n    virtual_ipaddress {\n        %s\n    }\n}\n", shared)
	return []byte(b.String()), nil
}

// routerID is the last byte of the address, 255 if that is 0, which VRRP does not take.
func routerID(a netip.Addr) byte {
	bytes := a.AsSlice()
	return cmp.Or(bytes[len(bytes)-1], 255)
}

// notHeld says that a master that makes the cluster waits for the address.
func (s *controlPlaneStep) notHeld(desired *api.NodeConfig) error {
	shared := desired.ControlPlane.SharedAddress
	if shared == "" || !desired.Cluster.Initialize {
		return nil
	}
	name, err := s.Kubeadm.InterfaceOf(shared)
	if err == nil && name == "" {
		err = converge.Wait(api.ReasonAddressUnavailable, "keepalived runs, and has not given this machine %s yet; if it does not within seconds, read `journalctl -u keepalived`", shared)
	}
	return err
}

// holding says who has the shared address, for the message of a healthy master.
func (s *controlPlaneStep) holding(desired *api.NodeConfig) (string, error) {
	shared := desired.ControlPlane.SharedAddress
	if shared == "" {
		return "", nil
	}
	name, err := s.Kubeadm.InterfaceOf(shared)
	if err != nil || name != "" {
		return fmt.Sprintf("; this master holds %s", shared), err
	}
	return fmt.Sprintf("; another master holds %s", shared), nil
}
