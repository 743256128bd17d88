package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params"
)

// addPersistentVolumes has one master register the cluster's PersistentVolumes once
// the storage server serves what they point to, or withdraw them.
func (o *Output) addPersistentVolumes(in Input) {
	c := in.Params.Cluster
	if c == nil || c.StorageServer == nil || len(c.PersistentVolumes) == 0 && !in.CarriedOver.Registered {
		return // a cluster that never had any may have no API server for them
	}
	master, storage := o.owner(in), o.storage()
	if master == nil {
		o.CarriedOver.Owner = ""
		return
	}
	o.CarriedOver.Owner = master.ID
	if storage == nil {
		master.withhold(api.SectionPersistentVolumes, api.ReasonTopologyIncomplete, "no storage server serves them")
		return
	}
	section := &api.PersistentVolumesSection{State: api.PersistentVolumesPresent, Servers: storage.Addresses, Manifests: []api.Manifest{}}
	master.addManifests(in, storage, section)
	if in.Withdraw {
		// A later plan must see them served again: the server may be gone by then.
		section.State, o.CarriedOver.Served = api.PersistentVolumesAbsent, ""
	} else {
		o.awaitExports(in, master, storage)
	}
	if master.withholds(api.SectionPersistentVolumes) || !master.takes(in, api.SectionPersistentVolumes, section) {
		return
	}
	master.Config.PersistentVolumes = section
	o.CarriedOver.Registered = true
}

// awaitExports withholds the PersistentVolumes until the storage server serves what
// its present document says. Once it has, an export that fails does not take them
// away: only another section, or another server, has to be waited for.
func (o *Output) awaitExports(in Input, master, storage *Node) {
	if storage.Config.Storage == nil {
		master.waitForExports(storage, "has no configuration yet: "+storage.why(api.SectionStorage).Message)
		return
	}
	served, now := storage.served(), in.Nodes[storage.ID]
	if in.CarriedOver.Served != served && (!now.Heard || now.Serves != storage.Config.Digest()) {
		master.waitForExports(storage, "does not serve "+directories(storage.Config.Storage)+" yet")
		return
	}
	o.CarriedOver.Served = served
}

// waitForExports withholds the PersistentVolumes until the storage server is further.
func (n *Node) waitForExports(storage *Node, why string) {
	n.Withheld = append(n.Withheld, api.Withheld{NodeID: n.ID, Section: api.SectionPersistentVolumes, Reason: api.ReasonWaitingForExports,
		Message: fmt.Sprintf("the storage server %s (%s) %s", storage.Name, storage.ID, why), WaitsFor: storage.ID})
}

// storage is the storage server, nil for none.
func (o *Output) storage() *Node {
	for i := range o.Nodes {
		if o.Nodes[i].Role == api.RoleStorage {
			return &o.Nodes[i]
		}
	}
	return nil
}

// served identifies what a storage server is to serve. It differs between epochs: what was
// seen before a restore does not count.
func (n *Node) served() string {
	section, err := json.Marshal(n.Config.Storage)
	if err != nil {
		panic("plan: a storage section always has a JSON form: " + err.Error())
	}
	sum := sha256.Sum256(section)
	return fmt.Sprintf("%d/%s/%s", n.Config.Epoch, n.ID, hex.EncodeToString(sum[:16]))
}

func directories(s *api.StorageSection) string {
	var list []string
	for _, e := range s.Exports {
		list = append(list, e.Directory)
	}
	return strings.Join(slices.Compact(list), ", ")
}

// addManifests puts the objects of the manifest files into the section, each with the
// address of its server.
func (n *Node) addManifests(in Input, storage *Node, section *api.PersistentVolumesSection) {
	var all []Manifest
	for _, pv := range in.Params.Cluster.PersistentVolumes {
		address := n.serverAddress(in, storage, pv, section)
		file, ok := n.usable(in, api.SectionPersistentVolumes, pv.ManifestPath)
		if !ok || address == "" {
			continue
		}
		for _, m := range file.Manifests {
			object, err := withServer(m.Object, address)
			if err != nil {
				n.withhold(api.SectionPersistentVolumes, api.ReasonFileMissing, fmt.Sprintf("the package file %s is damaged: %v; upload it again", pv.ManifestPath, err))
				continue
			}
			all = append(all, Manifest{Name: m.Name, Object: object})
		}
	}
	slices.SortStableFunc(all, func(a, b Manifest) int { return cmp.Compare(a.Name, b.Name) })
	for i, m := range all {
		if i > 0 && all[i-1].Name == m.Name {
			n.withhold(api.SectionPersistentVolumes, api.ReasonFileMissing, fmt.Sprintf("two package files register PersistentVolume %q; give each a name of its own", m.Name))
		}
		section.Manifests = append(section.Manifests, m.Object)
	}
}

// serverAddress is the first address of the connection point that the parameters name:
// one of the storage server, or one of the stack itself, such as an address that moves.
func (n *Node) serverAddress(in Input, storage *Node, pv params.PVRegistration, section *api.PersistentVolumesSection) string {
	points := slices.Clone(in.Topology.ConnectionPoints)
	for _, s := range in.Topology.Servers {
		if s.ID == storage.ID {
			points = append(slices.Clone(s.ConnectionPoints), points...)
		}
	}
	i := slices.IndexFunc(points, func(p api.ConnectionPoint) bool { return p.Name == pv.NFSServerCP })
	if i < 0 || len(points[i].Addresses) == 0 {
		n.withhold(api.SectionPersistentVolumes, api.ReasonConnectionPointUnresolved, fmt.Sprintf(
			"nfs_server_cp %q is no connection point of the storage server %s (%s) with an address; give it in its connectionPoints",
			pv.NFSServerCP, storage.Name, storage.ID))
		return ""
	}
	address := points[i].Addresses[0]
	if at, found := slices.BinarySearch(section.Servers, address); !found {
		section.Servers = slices.Insert(slices.Clone(section.Servers), at, address)
	}
	return address
}

// withServer is the object with another spec.nfs.server. All else stays as it was
// written, numbers too.
func withServer(object json.RawMessage, address string) (json.RawMessage, error) {
	server, err := json.Marshal(address)
	if err != nil {
		return nil, err
	}
	return withMember(object, server, "spec", "nfs", "server")
}

func withMember(object, value json.RawMessage, path ...string) (json.RawMessage, error) {
	if len(path) == 0 {
		return value, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil || members == nil {
		return nil, fmt.Errorf("it has no object at %s", path[0])
	}
	inner, ok := members[path[0]]
	if !ok && len(path) > 1 {
		return nil, fmt.Errorf("it has no %s", path[0])
	}
	changed, err := withMember(inner, value, path[1:]...)
	if err != nil {
		return nil, err
	}
	members[path[0]] = changed
	return json.Marshal(members)
}
