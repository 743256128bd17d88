package params

import (
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

func (o *object) registry() *Registry {
	r := &Registry{
		SSHCPName: text(o, keySSHCP, required, grammar.ResourceName),
		VduID:     text(o, keyVduID, optional, grammar.ResourceName),
		Username:  text(o, "ssh_username", optional, grammar.UserName),
		Password:  o.secret("ssh_password"),
		ImagePath: text(o, keyImagePath, optional, grammar.PackagePath),
		Port:      o.port("port_no", 5000),
		Volume:    o.registryVolume(),
		Proxy:     o.object(keyProxy, optional).proxy(),
	}
	if r.Username == "" {
		r.Username = "ubuntu"
	}
	o.close()
	return r
}

// registryVolume reads the two attributes of the volume, which belong together.
func (o *object) registryVolume() *Volume {
	v := &Volume{
		ResourceID: text(o, keyResource, optional, grammar.ResourceName),
		MountTo:    o.normal(keyMountTo, optional, slashed(grammar.MountPath)),
	}
	hasResource, hasMount := o.has(keyResource), o.has(keyMountTo)
	switch {
	case hasResource && !hasMount:
		o.r.fault(o.at, "has %s without %s; give both or neither", keyResource, keyMountTo)
	case hasMount && !hasResource:
		o.r.fault(o.at, "has %s without %s; give both or neither", keyMountTo, keyResource)
	case hasResource:
		return v
	}
	return nil
}

// port reads a TCP port, which may be a number or a string.
func (o *object) port(name string, absent uint16) uint16 {
	n, at := o.attribute(name, optional, jsontree.Number, jsontree.String)
	if n == nil {
		return absent
	}
	port, err := grammar.Port(n.Text)
	if err != nil {
		o.r.fault(at, "%v", err)
		return absent
	}
	return port
}
