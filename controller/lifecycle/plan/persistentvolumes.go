package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// hasPersistentVolumes reports whether the cluster's PersistentVolumes are to be registered or
// withdrawn.
func hasPersistentVolumes(in Input) bool {
	c := in.Params.Cluster
	return c != nil && c.StorageServer != nil && (len(c.PersistentVolumes) > 0 || in.CarriedOver.Registered)
}

// addPersistentVolumes has the owner register the cluster's PersistentVolumes once
// the storage server serves what they point to, or withdraw them.
func (o *Output) addPersistentVolumes(in Input, master *Node) {
	storage := o.storage()
	if storage != nil {
		o.StorageAddresses = storageAddresses(in, storage)
	}
	if master == nil { // nobody speaks for the cluster: its first master says why, if it has one
		if i := slices.IndexFunc(o.Nodes, func(n Node) bool { return n.Role == api.RoleMaster }); i >= 0 {
			o.Nodes[i].withhold(api.SectionPersistentVolumes, api.ReasonNotJoined, "no master that stays is a member of the cluster")
		}
		return
	}
	if storage == nil {
		master.withhold(api.SectionPersistentVolumes, api.ReasonTopologyIncomplete, "no storage server serves them")
		return
	}
	section := &api.PersistentVolumesSection{State: api.PersistentVolumesPresent, Manifests: []api.Manifest{}}
	o.addManifests(in, master, storage, section)
	if in.Withdraw {
		// A later plan must see them served again: the server may be gone by then.
		section.State, o.CarriedOver.Served = api.PersistentVolumesAbsent, ""
		section.Servers = union(section.Servers, in.CarriedOver.RegisteredAt)
	} else {
		o.awaitExports(in, master, storage)
	}
	if master.withholds(api.SectionPersistentVolumes) || !master.takes(in, api.SectionPersistentVolumes, section) {
		return
	}
	master.Config.PersistentVolumes = section
	o.CarriedOver.Registered = true
	o.registeredAt(in, storage, section.Servers)
}

// registeredAt notes the addresses of the PersistentVolumes. Until the server that takes the place of another
// one serves, clients may write through that one by its addresses.
func (o *Output) registeredAt(in Input, storage *Node, servers []string) {
	before := in.CarriedOver.RegisteredAt
	switch {
	case in.Withdraw || !in.Params.Cluster.StorageServer.KeepVolumes && len(before) == 0:
	case o.replaced(in, storage):
		o.CarriedOver.RegisteredAt = union(before, servers)
	default:
		o.CarriedOver.RegisteredAt = servers
	}
}

// union is each of two lists' elements once, ordered.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// awaitExports withholds the PersistentVolumes until the storage server serves what
// its present document says. Once it has, an export that fails does not take them
// away: only another section, or another server, has to be waited for.
func (o *Output) awaitExports(in Input, master, storage *Node) {
	if o.replaced(in, storage) {
		return
	}
	if storage.Config.Storage == nil {
		master.waitForExports(storage, "has no configuration yet: "+storage.why(api.SectionStorage).Message)
		return
	}
	served := storage.served()
	if in.CarriedOver.Served != served && !o.serves(in, storage) {
		master.waitForExports(storage, "does not serve "+directories(storage.Config.Storage)+" yet")
		return
	}
	o.CarriedOver.Served, o.CarriedOver.ClientRecorder = served, ""
	if storage.Config.Storage.ClientRecords != "" {
		o.CarriedOver.ClientRecorder = storage.ID
	}
}

// replaced reports whether another server served the PersistentVolumes, which are kept while
// this one takes its place: their clients wait for it, and the section stays as it is.
func (o *Output) replaced(in Input, storage *Node) bool {
	if o.CarriedOver.VolumeServer == "" || !in.CarriedOver.Registered {
		return false
	}
	before := strings.Split(in.CarriedOver.Served, "/") // see served
	return len(before) == 3 && before[0] == strconv.FormatInt(in.Epoch, 10) && before[1] != storage.ID && !o.serves(in, storage)
}

// serves reports whether the storage server serves what its present document says.
func (o *Output) serves(in Input, storage *Node) bool {
	now := in.Nodes[storage.ID]
	return storage.Config.Storage != nil && now.Heard && now.Serves == storage.Config.Digest()
}

// waitForExports withholds the PersistentVolumes until the storage server is further.
func (n *Node) waitForExports(storage *Node, why string) {
	n.waitFor(storage, api.SectionPersistentVolumes, api.ReasonWaitingForExports, fmt.Sprintf("the storage server %s (%s) %s", storage.Name, storage.ID, why))
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
// address of its server, and all addresses by which the server is reached.
func (o *Output) addManifests(in Input, master, storage *Node, section *api.PersistentVolumesSection) {
	points := pointsOf(in.Topology, storage.ID)
	for _, pv := range in.Params.Cluster.PersistentVolumes {
		file, usable := master.usable(in, api.SectionPersistentVolumes, pv.ManifestPath)
		i := named(points, pv.NFSServerCP)
		if i < 0 || len(points[i].Addresses) == 0 {
			master.withhold(api.SectionPersistentVolumes, api.ReasonConnectionPointUnresolved, fmt.Sprintf(
				"nfs_server_cp %q is no connection point of the storage server %s (%s) with an address; give it in its connectionPoints",
				pv.NFSServerCP, storage.Name, storage.ID))
			continue
		}
		if usable {
			o.addObjects(master, pv.ManifestPath, file.Manifests, points[i])
		}
	}
	section.Servers = o.StorageAddresses
	slices.SortStableFunc(o.PersistentVolumes, func(a, b PersistentVolume) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Server, b.Server))
	})
	for i, m := range o.PersistentVolumes {
		if i > 0 && o.PersistentVolumes[i-1].Name == m.Name {
			master.withhold(api.SectionPersistentVolumes, api.ReasonFileMissing, fmt.Sprintf("two package files register PersistentVolume %q; give each a name of its own", m.Name))
		}
		section.Manifests = append(section.Manifests, m.Object)
	}
}

// addObjects adds the objects of one manifest file, each with the address of the
// connection point.
func (o *Output) addObjects(master *Node, path string, manifests []Manifest, point placedPoint) {
	address := point.Addresses[0]
	for _, m := range manifests {
		object, err := withServer(m.Object, address)
		if err != nil {
			master.withhold(api.SectionPersistentVolumes, api.ReasonFileMissing, fmt.Sprintf("the package file %s is damaged: %v; upload it again", path, err))
			continue
		}
		o.PersistentVolumes = append(o.PersistentVolumes, PersistentVolume{
			Name: m.Name, Server: address, At: point.at.Key("addresses").Index(0), Object: object})
	}
}

// placedPoint is a connection point by which the storage server may be reached, and its
// place in the body of PUT.
type placedPoint struct {
	api.ConnectionPoint
	at       fault.At
	ofServer bool
}

// pointsOf are the connection points of a server, then those of the stack itself, such as
// an address that moves.
func pointsOf(t *api.Topology, serverID string) []placedPoint {
	root := fault.Root.Key("topology")
	var list []placedPoint
	for i, s := range t.Servers {
		if s.ID != serverID {
			continue
		}
		for j, p := range s.ConnectionPoints {
			list = append(list, placedPoint{p, root.Key("servers").Index(i).Key("connectionPoints").Index(j), true})
		}
	}
	for j, p := range t.ConnectionPoints {
		list = append(list, placedPoint{p, root.Key("connectionPoints").Index(j), false})
	}
	return list
}

// named is the index of the first point of that name, -1 for none.
func named(points []placedPoint, name string) int {
	return slices.IndexFunc(points, func(p placedPoint) bool { return p.Name == name })
}

// storageAddresses are the addresses of the storage server's connection points and of those
// that PersistentVolumes use, fixed and floating ones, each once, ordered: a PersistentVolume
// that others made may point to any of them.
func storageAddresses(in Input, storage *Node) []string {
	list := []string{}
	points := pointsOf(in.Topology, storage.ID)
	for i, p := range points {
		used := slices.ContainsFunc(in.Params.Cluster.PersistentVolumes, func(pv params.PVRegistration) bool { return named(points, pv.NFSServerCP) == i })
		if p.ofServer || used {
			list = append(append(list, p.Addresses...), p.FloatingAddresses...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
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
