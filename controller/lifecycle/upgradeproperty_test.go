package lifecycle_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// upgrade is what a history knows of the versions of Kubernetes in a cluster that nodehitch makes.
type upgrade struct {
	// version is that of the last PUT.
	version string
	// told are the versions of the documents of members, by node, after the event or report before, and
	// drained the nodes that an owner has reported as drained and is still asked to drain.
	told    map[string]string
	drained map[string]bool
	members int // how often a member was told another version
}

// upgradeAny is a PUT with any version, and perhaps the END that waits for it.
func (h *history) upgradeAny(t *rapid.T) {
	before := h.upgrade.version
	h.upgrade.version = rapid.SampledFrom([]string{lifecycletest.OldVersion, lifecycletest.NewVersion, "1.35.5", "1.36.1"}).Draw(t, "version")
	s := lifecycletest.WithVolumes(nil)
	err := h.tryPut(s)
	var refused *api.Problem
	if errors.As(err, &refused) {
		h.upgrade.version = before
		if refused.Type == api.ProblemInvalid && !strings.Contains(refused.Error(), "/kubernetes/version") {
			t.Fatalf("another version was refused: %v", refused)
		}
		return
	}
	h.Must(err)
	h.observed = time.Time{}
	if rapid.Bool().Draw(t, "is waited for") {
		h.posted(t, api.OperationRequest{Operation: api.ModifyInfo, Phase: api.PhaseEnd, DeadlineSeconds: 3600})
	}
}

// upgradeGoesOn are some reports of all machines.
func (h *history) upgradeGoesOn(t *rapid.T) {
	for range rapid.IntRange(1, 8).Draw(t, "how often") {
		h.convergeAny(t)
		h.after(t)
	}
}

// drains notes what a report that counts says of drained Nodes.
func (h *history) drains(id string, s api.NodeStatus) {
	c := s.Condition(api.ConditionClusterMembersDrained)
	config := h.Document(id)
	if c == nil || c.Status != api.ConditionTrue || c.ObservedGeneration != config.Generation || config.ClusterDrains == nil {
		return
	}
	for _, m := range config.ClusterDrains.Members {
		h.upgrade.drained[m.ServerID] = true
	}
}

// checkUpgrade holds the versions in the documents of members against those before the event, or
// before the report of a node.
func (h *history) checkUpgrade() {
	if h.upgrade == nil {
		return
	}
	u, asked, now, oldest := h.upgrade, map[string]bool{}, map[string]string{}, ""
	instance, nodes := h.records()
	members := instance.CarriedOver.Members
	for _, n := range nodes {
		config := h.Document(n.ID)
		if config.ClusterDrains != nil && n.Expected {
			for _, m := range config.ClusterDrains.Members {
				asked[m.ServerID] = true
			}
		}
		isMember := n.Role == api.RoleWorker || slices.Contains(members, n.ID)
		if k := config.Kubernetes; k != nil && n.Expected && n.Identity.Live() && isMember && len(members) > 0 {
			now[n.ID] = k.Version
			// A master that was no member before this event does not count: the report after which a worker
			// is told its version may also fail the operation that had left the master out.
			if n.Role == api.RoleMaster && u.told[n.ID] != "" && (oldest == "" || k.Version < oldest) {
				oldest = k.Version
			}
		}
	}
	if len(members) == 0 {
		clear(u.told)
	}
	masters := 0
	for _, n := range nodes {
		version, was := now[n.ID], u.told[n.ID]
		if version == "" || was == "" || version == was {
			continue
		}
		u.members++
		if n.Role == api.RoleMaster {
			masters++
		}
		if version < was || !u.drained[n.ID] || masters > 1 || n.Role == api.RoleWorker && oldest != "" && version > oldest {
			h.Fatalf("%s %s is told %s after %s; drained are %v, %d masters are told another version at once, and the oldest master is at %s",
				n.Role, n.ID, version, was, u.drained, masters, oldest)
		}
	}
	u.told = now
	for id := range u.drained {
		if !asked[id] {
			delete(u.drained, id)
		}
	}
}

// isAhead reports whether a member was told a higher version than that of the last PUT. It is a master of
// an earlier cluster that a topology has brought back, and a PUT with a lower version is refused.
func (u *upgrade) isAhead() bool {
	if u == nil {
		return false
	}
	for _, version := range u.told {
		if version > u.version {
			return true
		}
	}
	return false
}

// records are those of the instance and of its nodes.
func (h *history) records() (instance store.Instance, nodes []store.Node) {
	h.Must(h.Store.View(func(t *store.Tx) (err error) {
		if instance, _, err = t.Instances().Get(lifecycletest.InstanceID); err != nil {
			return err
		}
		nodes, err = t.Nodes().All()
		return err
	}))
	return instance, nodes
}
