// Package plan derives what every node of a VNF instance should be. It is a pure
// function of what the user asked for and what the stack has: no clock, no store,
// no chance, so that the same input gives the same documents for ever and in any
// order. What a node cannot have yet is withheld, with the reason; a section is
// given whole or not at all, because an empty list means "remove".
package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/topology"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// Input is all that a plan depends on.
type Input struct {
	// Epoch is the epoch of the controller's state; it is in every document.
	Epoch  int64
	Params *params.Params
	// Topology is normalized; nil while none is known.
	Topology *api.Topology
	// Volumes is what is known beforehand of the volumes of the topology, by id. A
	// volume that is not here is new.
	Volumes map[string]Volume
	// Files are the instance's package files by their path in the package.
	Files map[string]File
	// Nodes is what is known of the storage server, the masters and, if nodehitch makes the
	// cluster, the workers, by id.
	Nodes map[string]Observed
	// Agents is what the nodes' agents understand, by node id. One that has not polled yet
	// is not here: nothing is withheld from it, and nothing has been given to it either.
	Agents map[string]api.Agent
	// CarriedOver is what the plan before decided.
	CarriedOver CarriedOver
	// Cluster is what the controller keeps of the instance's cluster.
	Cluster Cluster
	// Withdraw makes the cluster's PersistentVolumes absent: their storage server is
	// about to go.
	Withdraw bool
	// Leaving are the servers that are to leave the cluster: they are about to go. Force: even
	// if the cluster does not let them.
	Leaving []string
	Force   bool
	// VolumeServerName is what people call CarriedOver.VolumeServer, if the topology lacks it.
	VolumeServerName string
}

// Volume is what the controller knows of a volume apart from the topology.
type Volume struct {
	// FilesystemUUID is the one assigned, or adopted; empty means the one that is
	// derived from the volume's id.
	FilesystemUUID string
	// ReformatBy is the node that an operator permitted to format the volume whatever
	// it holds, empty for none.
	ReformatBy string
	// InterruptedBy is the node that was permitted to format the volume and went before
	// it reported the end, empty for none.
	InterruptedBy string
	// HeldBy names, for people, the node of another instance whose configuration
	// has this volume; empty for none.
	HeldBy string
}

// Observed is what is known of a node by what it has reported in this epoch.
type Observed struct {
	// Enrolled: it has an identity. Heard: it also was heard of within three poll intervals.
	Enrolled, Heard bool
	// Serves is the digest of the document for which it reports ExportsServed; empty
	// for none.
	Serves string
	// Of a master with cluster_members. Member: it reports ClusterMember for its present document,
	// or that its Node is not Ready yet if nodehitch makes the cluster. NotJoined: it reports for
	// that document that its machine has joined no cluster. Anew: it has enrolled and not reported
	// since, so its machine may be another one.
	Member, NotJoined, Anew bool
	// Of a master or worker of a cluster that nodehitch makes. Version is that of Kubernetes which its
	// document said last, empty for none or if its machine has never enrolled. Healthy: a master reports
	// for its present document that its control plane is. Current: the node reports for it that it is a
	// member of that version, and healthy if it is a master.
	Version          string
	Healthy, Current bool
	// Drained: it reports ClusterMembersDrained for its present document. RenewalDue: its control
	// plane's certificates are in the last third of their validity.
	Drained, RenewalDue bool
}

// Cluster is what the controller keeps of a cluster whose parameters have cluster_members.
type Cluster struct {
	// Secret is what the members' tokens are derived from.
	Secret []byte
	// CACertificateHash is as the master that speaks for the cluster has reported it, empty
	// before.
	CACertificateHash string
}

// CarriedOver is plan state that one plan decides and the next one keeps, so that a
// condition or a master that comes and goes changes no document.
type CarriedOver struct {
	// Owner is the master that speaks for the cluster.
	Owner string
	// Served names the storage server and the section that it was seen to serve.
	Served string
	// Registered: a document has asked for PersistentVolumes to be registered.
	Registered bool
	// Members are the masters of the topology that are members of the cluster, ordered. While
	// there are none, there is no cluster.
	Members []string
	// Unproven are those of Members that have enrolled anew and not said since whether they
	// are members, ordered.
	Unproven []string
	// Initialize: the owner has said that it has joined no cluster while there was none, so it
	// is told to make it.
	Initialize bool
	// Endpoint is the address of the cluster's API server, empty for none.
	Endpoint string
	// MasterVersions has, for each of Members, the version of Kubernetes with which it joined or was
	// healthy last. Its document may name a newer version, which its API server does not have yet.
	MasterVersions map[string]string
	// Wave are the members that are upgraded now, ordered.
	Wave []string
	// Paused is the version of Kubernetes to which the upgrade was cancelled, empty for none: no
	// further member is told it.
	Paused string
	// Renews is the master whose turn it is to renew its certificates, empty for none.
	Renews string
	// VolumeServer is the storage server that may write to the volumes while PersistentVolumes
	// are kept: a document has told it of them, or the one before may not write any more, and it is not
	// known to be gone. No other one is told of them meanwhile. Empty for none.
	VolumeServer string
	// VolumeServerShown is what the cloud last showed of it, for people; empty while it is the
	// storage server, and before the cloud is asked.
	VolumeServerShown string
	// VolumeMasters are the masters of the cluster whose PersistentVolumes are kept, ordered: those
	// beside VolumeServer, and later ones as long as one of them stays. Empty if it is not known.
	VolumeMasters []string
	// VolumeIDs are the volumes, by their resource ids, that registered PersistentVolumes which are
	// kept are on. No document names another one for the same resource. Empty if it is not known.
	VolumeIDs map[string]string
	// ClientRecorder is the storage server that was last seen to serve, if it recorded its clients on the
	// volume then. Empty for none, and if it is not known.
	ClientRecorder string
	// RegisteredAt are the addresses of the storage servers whose PersistentVolumes a document has
	// asked for since one of them was last seen to serve, if some were ever to be kept. They are withdrawn
	// by these too: the topology may have a server elsewhere by then. Empty after a withdrawal.
	RegisteredAt []string
}

// Output is the plan.
type Output struct {
	// Nodes is every server that has a role, ordered by id.
	Nodes []Node
	// Volumes is every volume that the parameters name and the topology has,
	// ordered by id, even if the section that needs it is withheld.
	Volumes []VolumeUse
	// PersistentVolumes is what the manifests register, ordered by name, even if the section
	// that has them is withheld.
	PersistentVolumes []PersistentVolume
	// StorageAddresses are those by which the cluster's PersistentVolumes reach the storage
	// server, ordered.
	StorageAddresses []string
	// Endpoint is host:port by which the cluster of cluster_members is reached from outside,
	// empty for none.
	Endpoint string
	// Missing are the roles that the parameters require and no server has.
	Missing []api.Role
	// CarriedOver is given to the next plan.
	CarriedOver CarriedOver
	// Faults say why the topology cannot be used; then there are no nodes.
	// Pointers of both start at the root of the body of PUT.
	Faults, Warnings fault.List
}

// Node is what one server should be.
type Node struct {
	ID        string
	Name      string
	Role      api.Role
	Addresses []string
	// Config has generation 0: the caller that keeps documents counts them.
	Config   api.NodeConfig
	Withheld []api.Withheld
	// Asked names the content of the sections that are withheld because the agent is too
	// old for them, "" for none: what is asked of the node besides Config.
	Asked string
}

// VolumeUse is a volume and the servers that have it.
type VolumeUse struct {
	ID         string
	ResourceID string
	SizeBytes  int64
	// NodeID is the node whose document names it, empty if that is withheld.
	NodeID string
	// AttachedTo lists the servers that the topology attaches it to, ordered.
	AttachedTo []string
}

// PersistentVolume is one that a manifest registers.
type PersistentVolume struct {
	Name string
	// Server is the address that it points to, At the place of that in the body of PUT.
	Server string
	At     fault.At
	// Object is the manifest with that server.
	Object json.RawMessage
}

// Make is the plan for an input.
func Make(in Input) Output {
	at := fault.Root.Key("topology")
	assigned := topology.Assign(in.Params, in.Topology, at)
	out := Output{
		Missing:     assigned.Missing,
		CarriedOver: in.CarriedOver,
		Faults:      assigned.Faults,
		Warnings:    assigned.Warnings,
	}
	if len(out.Faults) > 0 || in.Topology == nil {
		return out
	}
	masters := assigned.Servers(api.RoleMaster)
	out.CarriedOver.followMasters(masters)
	for _, s := range in.Topology.Servers {
		role, ok := assigned.Roles[s.ID]
		if !ok {
			continue
		}
		n := newNode(in, s, role)
		switch role {
		case api.RoleStorage: // there is one of it, or of the registry
			out.Volumes = n.addStorageServer(in, s, masters, &out.CarriedOver)
		case api.RoleRegistry:
			out.Volumes = n.addRegistry(in, s)
		case api.RoleMaster, api.RoleWorker:
			n.addNFSClient(in)
			n.addRegistries(in)
		}
		out.Nodes = append(out.Nodes, n)
	}
	slices.SortFunc(out.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	out.addOwned(in)
	for i := range out.Nodes {
		out.Nodes[i].orderWithheld()
	}
	return out
}

func (n *Node) orderWithheld() {
	slices.SortFunc(n.Withheld, func(a, b api.Withheld) int {
		return cmp.Or(cmp.Compare(a.Section, b.Section), cmp.Compare(a.Message, b.Message))
	})
	n.Withheld = slices.Compact(n.Withheld)
}

func newNode(in Input, s api.Server, role api.Role) Node {
	n := Node{
		ID: s.ID, Name: s.Name, Role: role, Addresses: addresses(s),
		Config: api.NodeConfig{APIVersion: api.NodeConfigV1, Epoch: in.Epoch, Role: role},
	}
	if p := proxy(in.Params); n.takes(in, api.SectionProxy, p) {
		n.Config.Proxy = p
	}
	return n
}

// addresses are the fixed addresses of all connection points, each once, ordered.
func addresses(s api.Server) []string {
	var list []string
	for _, p := range s.ConnectionPoints {
		list = append(list, p.Addresses...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (n *Node) withhold(section string, reason api.Reason, message string) {
	n.Withheld = append(n.Withheld, api.Withheld{NodeID: n.ID, Section: section, Reason: reason, Message: message})
}

// waitFor withholds a section until another node, or the node itself, is further.
func (n *Node) waitFor(other *Node, section string, reason api.Reason, message string) {
	n.Withheld = append(n.Withheld, api.Withheld{NodeID: n.ID, Section: section, Reason: reason, Message: message, WaitsFor: other.ID})
}

// withholdAs withholds a section because another one is, and waits for the same node.
func (n *Node) withholdAs(other api.Withheld, section, message string) {
	other.Section, other.Message = section, message
	n.Withheld = append(n.Withheld, other)
}

// takes reports whether the node can be given a section with this content. One that its
// agent does not understand is withheld: the agent would refuse the whole document.
func (n *Node) takes(in Input, section string, content any) bool {
	if in.understands(n, section) {
		return true
	}
	agent := in.Agents[n.ID]
	text, err := json.Marshal(content)
	if err != nil {
		panic("plan: a section always has a JSON form: " + err.Error())
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", n.Asked, section, text))
	n.Asked = hex.EncodeToString(sum[:16])
	n.withhold(section, api.ReasonAgentTooOld, fmt.Sprintf("the node's agent (%s) does not understand the section %s; upgrade the agent",
		cmp.Or(agent.Version, "which does not say its version"), section))
	return false
}

// understands reports whether the node's agent understands a section, as far as is known.
func (in Input) understands(n *Node, section string) bool {
	agent, known := in.Agents[n.ID]
	return !known || agent.Understands(section)
}

// withholds reports whether something of the section is withheld, and so all of it.
func (n *Node) withholds(section string) bool { return n.why(section) != nil }

// why is the first reason for which the section is withheld, nil for none.
func (n *Node) why(section string) *api.Withheld {
	i := slices.IndexFunc(n.Withheld, func(w api.Withheld) bool { return w.Section == section })
	if i < 0 {
		return nil
	}
	return &n.Withheld[i]
}
