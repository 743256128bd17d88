package plan

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/mod/semver"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// wavesOfWorkers is how many waves the workers of a large cluster are upgraded in.
const wavesOfWorkers = 10

// upgrade brings the members to another version of Kubernetes in waves: the owner, then each other
// master alone, then a tenth of the workers at a time. The owner drains the Nodes of a wave, then its
// members are told the version, and the wave is over once all of them are healthy again. A member
// that waits keeps the version before, and no member is ever told a lower one. No kubelet is told a
// version that is newer than an API server's, also one that is about to go.
type upgrade struct {
	in Input
	to string
	// members are the ids of the masters that are members. Without any there is no cluster, and
	// nobody waits. masters are those of them that stay, the owner first, and leaving those that do
	// not. workers are those that have been told a version and stay, by id.
	members                   []string
	masters, leaving, workers []*Node
	owner                     *Node
	// masterVersions become CarriedOver.MasterVersions.
	masterVersions map[string]string
	// paused: it was cancelled, and no further member is told the version.
	paused bool
	// wave is at its turn, and is told the version if tells. next are the waves after it.
	wave  []*Node
	tells bool
	next  [][]*Node
	// until is why the wave at its turn is not told, or why none is at its turn.
	until obstacle
}

// obstacle is a node that others wait for, and in words that name it until when.
type obstacle struct {
	node *Node
	text string
}

// upgrade decides which wave is at its turn.
func (o *Output) upgrade(in Input, owner *Node) *upgrade {
	u := &upgrade{in: in, to: in.Params.Cluster.Kubernetes.Version, members: o.CarriedOver.Members, owner: owner}
	if len(u.members) > 0 {
		u.findMembers(o)
	}
	u.updateMasterVersions()
	o.CarriedOver.MasterVersions = u.masterVersions
	all := slices.Concat(u.masters, u.workers)
	if u.paused = in.CarriedOver.Paused == u.to && slices.ContainsFunc(all, u.isBehind); u.paused {
		o.warnPaused(u)
	} else {
		o.CarriedOver.Paused = ""
	}
	u.keepWave()
	if u.paused {
		if newest := u.newestMaster(); older(newest, u.to) { // so that others can join
			u.to = newest
		}
	} else if u.owner != nil {
		u.decide(o.CarriedOver.Renews)
	}
	o.CarriedOver.Wave = nil
	for _, n := range o.Nodes { // ordered by id
		if slices.ContainsFunc(u.wave, func(w *Node) bool { return w.ID == n.ID }) {
			o.CarriedOver.Wave = append(o.CarriedOver.Wave, n.ID)
		}
	}
	return u
}

func (u *upgrade) findMembers(o *Output) {
	u.masters = o.stayingMasters(u.in)
	if i := slices.Index(u.masters, u.owner); i > 0 {
		u.masters = slices.Concat(u.masters[i:i+1], u.masters[:i], u.masters[i+1:])
	}
	for i := range o.Nodes {
		n := &o.Nodes[i]
		switch leaves := u.in.leaves(n.ID); {
		case n.Role == api.RoleWorker && u.told(n) != "" && !leaves:
			u.workers = append(u.workers, n)
		case slices.Contains(u.members, n.ID) && leaves:
			u.leaving = append(u.leaving, n)
		}
	}
}

// updateMasterVersions gives a master that is healthy the version in its document. A master without
// a version gets it too: it joined with that version, or an older controller did not carry one over.
func (u *upgrade) updateMasterVersions() {
	u.masterVersions = map[string]string{}
	for _, n := range slices.Concat(u.masters, u.leaving) {
		u.masterVersions[n.ID] = u.in.CarriedOver.MasterVersions[n.ID]
		if u.in.Nodes[n.ID].Current || u.masterVersions[n.ID] == "" {
			u.masterVersions[n.ID] = u.told(n)
		}
	}
}

// isOld reports whether the master's API server may be older than the version.
func (u *upgrade) isOld(n *Node) bool {
	return u.masterVersions[n.ID] != "" && older(u.masterVersions[n.ID], u.to)
}

func older(version, than string) bool { return semver.Compare("v"+version, "v"+than) < 0 }

// told is the version that the node was told before, empty for none.
func (u *upgrade) told(n *Node) string { return u.in.Nodes[n.ID].Version }

func (u *upgrade) isBehind(n *Node) bool { return u.told(n) != "" && older(u.told(n), u.to) }

// isUnhealthy reports whether the node stops the others. A master that waits for its turn may have the
// programs of the next version already: what counts is its control plane.
func (u *upgrade) isUnhealthy(n *Node) bool {
	seen := u.in.Nodes[n.ID]
	return !seen.Heard || !seen.Current && (!u.isBehind(n) || !seen.Healthy)
}

func (u *upgrade) isAtTurn(n *Node) bool { return slices.Contains(u.wave, n) }

// keepWave keeps the wave of the plan before until it is over. One that is not told yet is given up
// if the upgrade is paused, if nobody is left who drains, or if it is of workers and masters are behind:
// the parameters have another version than when it began.
func (u *upgrade) keepWave() {
	for _, n := range slices.Concat(u.masters, u.workers) {
		if slices.Contains(u.in.CarriedOver.Wave, n.ID) {
			u.wave = append(u.wave, n)
		}
	}
	if !slices.ContainsFunc(u.wave, u.isBehind) {
		if !slices.ContainsFunc(u.wave, u.isUnhealthy) {
			u.wave = nil
		}
		return
	}
	if u.paused || u.owner == nil || u.wave[0].Role == api.RoleWorker && slices.ContainsFunc(u.masters, u.isBehind) {
		u.wave = nil
	}
}

// decide tells the wave at its turn the version once its Nodes are drained, or begins the next one.
func (u *upgrade) decide(renews string) {
	waits := func(n *Node) bool { return u.isBehind(n) && !u.isAtTurn(n) }
	var workers []*Node
	for _, n := range u.masters {
		if waits(n) {
			u.next = append(u.next, []*Node{n})
		}
	}
	for _, n := range u.workers {
		if waits(n) {
			workers = append(workers, n)
		}
	}
	u.next = slices.AppendSeq(u.next, slices.Chunk(workers, max(1, len(u.workers)/wavesOfWorkers)))
	drain := obstacle{u.owner, "once its Node is drained by " + title(u.owner)}
	switch {
	case slices.ContainsFunc(u.wave, u.isBehind):
		// What another master has drained, or the owner for a wave before, is no proof.
		if u.owner.ID != u.in.CarriedOver.Owner || !u.in.Nodes[u.owner.ID].Drained {
			u.until = drain
		} else if u.wave[0].Role == api.RoleMaster { // etcd keeps its quorum while one master restarts
			u.until = u.unhealthyMaster()
		} else {
			u.until = u.oldMaster()
		}
		u.tells = u.until.node == nil
	case len(u.wave) == 0 && len(u.next) > 0:
		if u.until = u.mustNotBegin(renews); u.until.node == nil {
			u.wave, u.next, u.until = u.next[0], u.next[1:], drain
		}
	}
}

// mustNotBegin is why the next wave does not begin.
func (u *upgrade) mustNotBegin(renews string) obstacle {
	for _, n := range u.masters {
		if n.ID == renews {
			return obstacle{n, fmt.Sprintf("once %s has renewed its certificates", title(n))}
		}
	}
	for _, n := range append([]*Node{u.owner}, u.next[0]...) {
		if !u.in.understands(n, api.SectionClusterDrains) {
			return obstacle{n, fmt.Sprintf("once the agent of %s is upgraded", title(n))}
		}
	}
	if u.next[0][0].Role == api.RoleWorker {
		if until := u.oldMaster(); until.node != nil {
			return until
		}
	}
	return u.unhealthyMaster()
}

// unhealthyMaster is the first master that is not healthy and not at its turn.
func (u *upgrade) unhealthyMaster() (none obstacle) {
	for _, n := range u.masters {
		if u.isUnhealthy(n) && !u.isAtTurn(n) {
			return needsHealthy(n)
		}
	}
	return none
}

func needsHealthy(n *Node) obstacle {
	return obstacle{n, fmt.Sprintf("once %s is a healthy master", title(n))}
}

func title(n *Node) string { return fmt.Sprintf("%s (%s)", n.Name, n.ID) }

// add gives a node the section kubernetes with its version, or says what it waits for.
func (u *upgrade) add(n *Node) {
	until, joins := u.oldMaster(), u.joins(n)
	if joins && until.node != nil {
		n.waitFor(until.node, api.SectionKubernetes, api.ReasonWaitingForTurn, fmt.Sprintf("joins the cluster with %s %s", u.to, until.text))
		return
	}
	version, told := u.to, u.told(n)
	waits := len(u.members) > 0 && u.isBehind(n) && !joins && (!u.tells || !u.isAtTurn(n))
	if waits || len(u.members) > 0 && told != "" && older(version, told) {
		version = told
	}
	n.addKubernetes(u.in, version)
	if waits {
		u.addWait(n)
	}
}

// joins reports whether the node is to become a member of a cluster that is there.
func (u *upgrade) joins(n *Node) bool {
	if n.Role == api.RoleMaster {
		return !slices.Contains(u.members, n.ID)
	}
	return u.told(n) == ""
}

// newestMaster is the newest version that a master has been told.
func (u *upgrade) newestMaster() (newest string) {
	for _, n := range u.masters {
		if newest == "" || older(newest, u.told(n)) {
			newest = u.told(n)
		}
	}
	return cmp.Or(newest, u.to)
}

// oldMaster is the last master whose turn is to come or is not over. If there is none, it is another
// master whose API server may be older than the version: one that stays, else one that leaves.
func (u *upgrade) oldMaster() (none obstacle) {
	for _, n := range slices.Backward(u.masters) {
		if u.isBehind(n) || u.isAtTurn(n) {
			text := fmt.Sprintf("after %s, which is upgraded first", title(n))
			if u.paused {
				text += "; the upgrade was cancelled: post MODIFY_INFO or CHANGE_VNFPKG to go on with it"
			}
			return obstacle{n, text}
		}
	}
	if i := slices.IndexFunc(u.masters, u.isOld); i >= 0 {
		return needsHealthy(u.masters[i])
	}
	if i := slices.IndexFunc(u.leaving, u.isOld); i >= 0 {
		return obstacle{u.leaving[i], fmt.Sprintf("once %s has left the cluster", title(u.leaving[i]))}
	}
	return none
}

// addWait says of a member that keeps its version which node it waits for. It says nothing if the
// upgrade is paused, or if the member leaves.
func (u *upgrade) addWait(n *Node) {
	until := u.until
	if !u.isAtTurn(n) {
		i := slices.IndexFunc(u.next, func(wave []*Node) bool { return slices.Contains(wave, n) })
		if i < 0 {
			return
		}
		if before := slices.Concat(append([][]*Node{u.wave}, u.next[:i]...)...); len(before) > 0 {
			last := before[len(before)-1]
			until = obstacle{last, "after " + title(last)}
		}
	}
	message := fmt.Sprintf("is upgraded from %s to %s %s", u.told(n), u.to, until.text)
	if !u.in.understands(n, api.SectionClusterDrains) {
		n.withhold(api.SectionKubernetes, api.ReasonAgentTooOld, fmt.Sprintf("%s, and its agent (%s) cannot do it; upgrade the agent", message, u.in.Agents[n.ID].Version))
		return
	}
	n.waitFor(until.node, api.SectionKubernetes, api.ReasonWaitingForTurn, message)
}

// warnPaused says that members stay behind.
func (o *Output) warnPaused(u *upgrade) {
	behind := 0
	for _, n := range slices.Concat(u.masters, u.workers) {
		if u.isBehind(n) {
			behind++
		}
	}
	o.Warnings = append(o.Warnings, params.AtVersion(fault.Root.Key("additionalParams")).Fault(fmt.Sprintf(
		"is %s, and the upgrade to it was cancelled: %d members stay at an older version until an END of MODIFY_INFO or CHANGE_VNFPKG goes on with it", u.to, behind)))
}
