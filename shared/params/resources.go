package params

import "github.com/nodehitch/nodehitch/shared/fault"

// ResourceUse is one place where the parameters name a resource of the Heat templates.
type ResourceUse struct {
	Name string
	// Pointer is where the request names it.
	Pointer string
	Kind    ResourceKind
	// Sign: servers have their role by this resource, or by another sign.
	Sign bool
}

// ResourceKind is what a resource of the Heat templates makes.
type ResourceKind int

// The kinds that parameters name: a port or a floating IP, a Cinder volume, the group of a
// scaling aspect, and the server of a VDU.
const (
	ConnectionPointResource ResourceKind = iota
	VolumeResource
	GroupResource
	ServerResource
)

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
		uses.vdu(r.VduID, at)
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
	u.add(ResourceUse{Name: name, Pointer: string(at), Kind: VolumeResource})
}

func (u *resourceUses) vdu(id string, at fault.At) {
	u.add(ResourceUse{Name: id, Pointer: string(at.Key(keyVduID)), Kind: ServerResource, Sign: true})
}

func (u *resourceUses) node(n Node, at fault.At) {
	u.add(ResourceUse{Name: n.AspectID, Pointer: string(at.Key(keyAspectID)), Kind: GroupResource, Sign: true})
	u.vdu(n.VduID, at)
	u.signs(n.SSHCPName, n.NICCPName, at)
}

func (u *resourceUses) cluster(c *Cluster, at fault.At) {
	u.node(c.Master.Node, at.Key(keyMaster))
	u.node(c.Worker.Node, at.Key(keyWorker))
	if s := c.StorageServer; s != nil {
		at := at.Key(keyStorage)
		u.vdu(s.VduID, at)
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
