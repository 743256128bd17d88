package params

import "github.com/nodehitch/nodehitch/shared/fault"

// ResourceUse is one place where the parameters name a resource of the Heat templates.
type ResourceUse struct {
	Name string
	// Pointer is where the request names it.
	Pointer string
	// Volume: it is a Cinder volume; else a connection point, which is a port or a
	// floating IP.
	Volume bool
	// Group: it is the group of a scaling aspect.
	Group bool
	// Sign: servers have their role by this connection point or group, or by another sign.
	Sign bool
}

// Resources is every such place, in the order of the attributes' tables. at is the place of
// additionalParams, as given to Parse. Names that validation refused are left out, so a
// Report's Partial may be asked too.
func Resources(p *Params, at fault.At) []ResourceUse {
	var uses resourceUses
	if p == nil {
		return nil
	}
	if c := p.Cluster; c != nil {
		uses.cluster(c, at.Key(keyCluster))
	}
	if r := p.Registry; r != nil {
		at := at.Key(keyRegistry)
		uses.sign(r.SSHCPName, at.Key(keySSHCP))
		if r.Volume != nil {
			uses.volume(r.Volume.ResourceID, at.Key(keyResource))
		}
	}
	return uses
}

type resourceUses []ResourceUse

func (u *resourceUses) add(use ResourceUse) {
	if use.Name != "" {
		*u = append(*u, use)
	}
}

func (u *resourceUses) sign(name string, at fault.At) {
	u.add(ResourceUse{Name: name, Pointer: string(at), Sign: true})
}

func (u *resourceUses) volume(name string, at fault.At) {
	u.add(ResourceUse{Name: name, Pointer: string(at), Volume: true})
}

func (u *resourceUses) group(aspect string, at fault.At) {
	u.add(ResourceUse{Name: aspect, Pointer: string(at.Key(keyAspectID)), Group: true, Sign: true})
}

func (u *resourceUses) cluster(c *Cluster, at fault.At) {
	u.group(c.Master.AspectID, at.Key(keyMaster))
	u.signs(c.Master.SSHCPName, c.Master.NICCPName, at.Key(keyMaster))
	u.group(c.Worker.AspectID, at.Key(keyWorker))
	u.signs(c.Worker.SSHCPName, c.Worker.NICCPName, at.Key(keyWorker))
	if s := c.StorageServer; s != nil {
		at := at.Key(keyStorage)
		u.signs(s.SSHCPName, s.NICCPName, at)
		for i, v := range s.Volumes {
			u.volume(v.ResourceID, at.Key(keyVolumes).Index(i).Key(keyResource))
		}
	}
	for i, pv := range c.PersistentVolumes {
		u.add(ResourceUse{Name: pv.NFSServerCP, Pointer: string(at.Key(keyPVs).Index(i).Key(keyNFSServerCP))})
	}
}

// signs are the two connection points of a role, of which the second may be the first.
func (u *resourceUses) signs(ssh, nic string, at fault.At) {
	u.sign(ssh, at.Key(keySSHCP))
	if nic != ssh {
		u.sign(nic, at.Key(keyNICCP))
	}
}
