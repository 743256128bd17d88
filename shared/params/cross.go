package params

import (
	"net/netip"
	"strings"
)

// crossCheck finds what no attribute can tell alone.
func (o *object) crossCheck(c *Cluster) {
	o.checkPVs(c)
	o.checkRoles(c)
	o.checkServers(c.Registries)
	o.checkHostNames(c.Registries)
	o.checkKubernetes(c)
}

func (o *object) checkPVs(c *Cluster) {
	at := o.at.Key(keyPVs)
	if len(c.PersistentVolumes) > 0 && !o.has(keyStorage) {
		o.r.fault(at, "is given without %s, which serves the volumes; add it or leave this out", keyStorage)
	}
	manifests := newFirsts()
	for i, pv := range c.PersistentVolumes {
		if first, again := manifests.seen(pv.ManifestPath, i); again {
			o.r.fault(at.Index(i).Key(keyManifestPath), "%q is registered by element %d already; leave one out", pv.ManifestPath, first)
		}
		s := c.StorageServer
		if s == nil || s.SSHCPName == "" || pv.NFSServerCP == "" {
			continue
		}
		if pv.NFSServerCP != s.SSHCPName && pv.NFSServerCP != s.NICCPName {
			o.r.warn(at.Index(i).Key(keyNFSServerCP), "%q is none of the CPs that %s names (%s %q, %s %q); it has to be a CP of that VM",
				pv.NFSServerCP, keyStorage, keySSHCP, s.SSHCPName, keyNICCP, s.NICCPName)
		}
	}
}

// checkServers finds a registry given twice. Host names do not know case.
func (o *object) checkServers(connections []RegistryConnection) {
	servers := newFirsts()
	for i, c := range connections {
		if first, again := servers.seen(strings.ToLower(c.Server), i); again {
			o.r.fault(o.at.Key(keyRegistries).Index(i).Key(keyServer), "%q is the server of element %d already; a registry is given once", c.Server, first)
		}
	}
}

// checkHostNames warns if two lines for /etc/hosts give one name different
// addresses of the same family: only the first would ever be used.
func (o *object) checkHostNames(connections []RegistryConnection) {
	type key struct {
		name string
		v4   bool
	}
	addresses := make(map[key]netip.Addr)
	for i, c := range connections {
		if c.HostsEntry == nil {
			continue
		}
		for _, name := range c.HostsEntry.Names {
			k, addr := key{strings.ToLower(name), c.HostsEntry.Address.Is4()}, c.HostsEntry.Address
			if other, ok := addresses[k]; ok && other != addr {
				o.r.warn(o.at.Key(keyRegistries).Index(i).Key(keyHosts), "gives %s the address %s, and another element %s; only the first in the file is used", name, addr, other)
			}
			addresses[k] = addr
		}
	}
}

// role is what identifies the servers of one role.
type role struct {
	key         string
	aspect, vdu string
	cps         map[string]string // attribute to CP name
}

// checkRoles wants every server to have one role: two roles have different aspects or
// different VDUs, or no aspect, VDU or CP in common.
func (o *object) checkRoles(c *Cluster) {
	roles := []role{
		{keyMaster, c.Master.AspectID, c.Master.VduID, map[string]string{keySSHCP: c.Master.SSHCPName, keyNICCP: c.Master.NICCPName}},
		{keyWorker, c.Worker.AspectID, c.Worker.VduID, map[string]string{keySSHCP: c.Worker.SSHCPName, keyNICCP: c.Worker.NICCPName}},
	}
	if s := c.StorageServer; s != nil {
		roles = append(roles, role{keyStorage, "", s.VduID, map[string]string{keySSHCP: s.SSHCPName, keyNICCP: s.NICCPName}})
	}
	for i, later := range roles {
		for _, earlier := range roles[:i] {
			o.compareRoles(earlier, later)
		}
	}
}

func (o *object) compareRoles(earlier, later role) {
	switch {
	case differ(later.aspect, earlier.aspect), differ(later.vdu, earlier.vdu):
		return
	case later.aspect != "" && later.aspect == earlier.aspect:
		o.r.fault(o.at.Key(later.key).Key(keyAspectID), "%q is the aspect of %s too; the servers of each role need an aspect of their own, or a VDU (%s)",
			later.aspect, earlier.key, keyVduID)
		return
	case later.vdu != "" && later.vdu == earlier.vdu:
		o.r.fault(o.at.Key(later.key).Key(keyVduID), "%q is the VDU of %s too; the servers of each role need a VDU of their own", later.vdu, earlier.key)
		return
	}
	for _, name := range []string{keySSHCP, keyNICCP} {
		cp := later.cps[name]
		if cp == "" || (cp != earlier.cps[keySSHCP] && cp != earlier.cps[keyNICCP]) {
			continue
		}
		o.r.fault(o.at.Key(later.key).Key(name), "%q is a CP of %s too, so the role of a server that has it cannot be told; name a CP that only %s has",
			cp, earlier.key, later.key)
		return
	}
}

// differ says whether both are given, and are not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b }
