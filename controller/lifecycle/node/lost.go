package node

import (
	"cmp"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// mostLost is how many VNFCs may be lost at a time. More are an outage, in which a person decides.
const mostLost = 10

// LostVNFC is a VNFC that only another server brings back, by the ids that Tacker has for it, with
// the name of its instance.
type LostVNFC struct{ InstanceID, InstanceName, ID string }

// Losses finds the lost VNFCs while the caller reads the nodes one by one.
type Losses struct {
	service   *Service
	instances map[string]*losses
}

// losses are those of one instance. Servers that have never enrolled count as silent.
type losses struct {
	servers, heard        int
	masters, mastersHeard int
	storageSilent         bool
	lost                  []string
}

// Losses begins to look for lost VNFCs.
func (s *Service) Losses() *Losses { return &Losses{service: s, instances: map[string]*losses{}} }

// Add counts a node. One that an upgrade of its agent has silenced is not lost: its machine is as
// it was.
func (l *Losses) Add(n store.Node) {
	s := l.service
	if !n.Expected || n.Epoch != s.Runner.Store.Epoch() {
		return
	}
	of := l.instances[n.InstanceID]
	if of == nil {
		of = new(losses)
		l.instances[n.InstanceID] = of
	}
	of.servers++
	heard := s.Presence.Heard(n)
	if heard {
		of.heard++
	}
	switch n.Role {
	case api.RoleMaster:
		of.masters++
		if heard {
			of.mastersHeard++
		}
	case api.RoleStorage:
		of.storageSilent = of.storageSilent || !heard
		return
	case api.RoleRegistry:
		return
	}
	upgrading := n.AgentOffer != nil && n.AgentOffer.OverAt.IsZero()
	if s.State(n) == api.NodeLost && !upgrading && len(of.lost) <= mostLost {
		of.lost = append(of.lost, n.ID)
	}
}

// VNFCs are the lost masters and workers of instances that can take others: without an operation
// in progress, and with most of the servers, most of the masters (etcd takes no new one otherwise)
// and the storage server heard of. If fewer are, the controller may be what is cut off.
func (l *Losses) VNFCs(t *store.Tx) (lost []LostVNFC, err error) {
	for id, of := range l.instances {
		if len(of.lost) == 0 || of.storageSilent || 2*of.heard <= of.servers || of.masters > 0 && 2*of.mastersHeard <= of.masters {
			continue
		}
		named, err := of.named(t, id)
		if err != nil {
			return nil, err
		}
		lost = append(lost, named...)
	}
	if len(lost) > mostLost {
		return nil, nil
	}
	slices.SortFunc(lost, func(a, b LostVNFC) int {
		return cmp.Or(cmp.Compare(a.InstanceID, b.InstanceID), cmp.Compare(a.ID, b.ID))
	})
	return lost, nil
}

// named are the VNFCs of the lost servers, none if an operation is in progress or between its START
// and its END.
func (of *losses) named(t *store.Tx, id string) (named []LostVNFC, err error) {
	inst, found, err := t.Instances().Get(id)
	if err != nil || !found || inst.State != api.Instantiated || inst.ProcessingSequence != 0 || inst.AwaitingEndSequence != 0 {
		return nil, err
	}
	last, found, err := t.Operations().Get(store.OperationKey(id, inst.LastSequence))
	if err != nil || found && last.Phase == api.PhaseStart && last.State == api.Completed {
		return nil, err
	}
	desired, found, err := t.Desired().Get(store.DesiredKey(id, inst.DesiredVersion))
	if err != nil || !found || desired.Topology == nil {
		return nil, err
	}
	for _, server := range desired.Topology.Servers {
		if vnfc := vnfcID(server); vnfc != "" && slices.Contains(of.lost, server.ID) {
			named = append(named, LostVNFC{id, inst.Name, vnfc})
		}
	}
	return named, nil
}

// vnfcID is the id of the server's VNFC: without one in the topology it is made as Tacker's v2 API
// makes it of Heat's resource.
func vnfcID(s api.Server) string {
	if s.VnfcInstanceID == "" && s.VduID != "" {
		return s.VduID + "-" + s.ID
	}
	return s.VnfcInstanceID
}
