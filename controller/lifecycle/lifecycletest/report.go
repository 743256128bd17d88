package lifecycletest

import (
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Enroll is a machine that redeems the instance's join token.
func (w *World) Enroll(serverID string) error {
	w.Helper()
	token, err := w.Enrollment.JoinToken(w.Ctx, InstanceID)
	w.Must(err)
	w.remote = w.remote.Next()       // the rate is limited for each address
	w.Clock.Advance(time.Nanosecond) // no two machines enroll at one moment
	_, err = w.Enrollment.Enroll(w.Ctx, token, api.EnrollRequest{ServerID: serverID, CertificateRequest: testca.Request(testca.NewKey(), nil)}, w.remote)
	return err
}

// Status is what an agent reports that has converged to its present document.
func (w *World) Status(nodeID string) api.NodeStatus {
	w.Helper()
	config, digest, err := w.Lifecycle.Nodes.NodeConfig(w.Ctx, nodeID)
	w.Must(err)
	s := api.NodeStatus{
		Epoch: config.Epoch, ObservedGeneration: config.Generation, ObservedDigest: digest,
		AppliedGeneration: config.Generation, AppliedDigest: digest,
	}
	for _, each := range append([]string{api.ConditionReady}, config.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, api.Condition{Type: each, Status: api.ConditionTrue, Reason: api.ReasonReady, ObservedGeneration: config.Generation, LastTransitionTime: w.Clock.Now()})
	}
	return s
}

// Report is a report of a node.
func (w *World) Report(nodeID string, s api.NodeStatus) {
	w.Helper()
	w.Must(w.Lifecycle.Nodes.ReportStatus(w.Ctx, nodeID, s))
}

// Converge enrolls the servers that have not and lets all report that they are ready.
func (w *World) Converge(ids ...string) {
	w.Helper()
	for _, id := range ids {
		if w.Node(id).State == api.NodeExpected {
			w.Must(w.Enroll(id))
		}
		w.Report(id, w.Status(id))
	}
}

// AgentWithout is an agent that understands all but these sections.
func AgentWithout(version string, sections ...string) api.Agent {
	a := api.ThisAgent(version)
	a.Sections = slices.DeleteFunc(a.Sections, func(s string) bool { return slices.Contains(sections, s) })
	return a
}

// Poll is the first check of a node's poll, and whether it wrote.
func (w *World) Poll(nodeID string, agent api.Agent) (digest string, writes bool) {
	w.Helper()
	writes = w.Writes(func() {
		now, err := w.Lifecycle.Nodes.Polled(w.Ctx, nodeID, agent)
		w.Must(err)
		digest = now.Digest
	})
	return digest, writes
}

// ReportLeft is a report of the node that all have left the cluster whom it was asked for.
func (w *World) ReportLeft(nodeID string) {
	w.Helper()
	w.ReportCondition(nodeID, api.ConditionClusterMembersLeft, api.ConditionTrue, api.ReasonMembersLeft, "")
}

// ReportStaying is a report of the master that speaks for the cluster that they have not left,
// and why.
func (w *World) ReportStaying(reason api.Reason) {
	w.Helper()
	w.ReportCondition(MasterServer, api.ConditionClusterMembersLeft, api.ConditionFalse, reason, "Pod shop/web-0")
}

// ReportFailed is a report in which the condition has failed for this reason, so that the
// agent waits for somebody to act.
func (w *World) ReportFailed(nodeID, condition string, reason api.Reason, message string) {
	w.Helper()
	s := w.Lacking(nodeID, condition, reason, message)
	s.LastFailedGeneration, s.LastFailedCondition = s.ObservedGeneration, condition
	w.Report(nodeID, s)
}

// ReportRetried is a report in which the agent tries again what has failed for this reason.
func (w *World) ReportRetried(nodeID, condition string, reason api.Reason) {
	w.Helper()
	w.Report(nodeID, w.Lacking(nodeID, condition, reason, "it is tried again"))
}

// Lacking is the status of an agent whose condition is False for this reason.
func (w *World) Lacking(nodeID, condition string, reason api.Reason, message string) api.NodeStatus {
	w.Helper()
	s := w.Status(nodeID)
	c := s.Condition(condition)
	c.Status, c.Reason, c.Message = api.ConditionFalse, reason, message
	s.Condition(api.ConditionReady).Status = api.ConditionFalse
	if condition == api.ConditionVolumesMounted { // what lies on the volume is not served
		served := s.Condition(api.ConditionExportsServed)
		served.Status, served.Reason = api.ConditionFalse, api.ReasonNotMounted
	}
	s.AppliedGeneration, s.AppliedDigest = 0, ""
	return s
}

// FallSilent lets these nodes fall silent, while all others are heard of.
func (w *World) FallSilent(ids ...string) {
	w.Helper()
	w.Clock.Advance(4 * PollInterval)
	all, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, InstanceID, true)
	w.Must(err)
	for _, n := range all {
		if !slices.Contains(ids, n.ID) {
			w.Lifecycle.Nodes.Seen(n.ID)
		}
	}
	w.Must(w.Lifecycle.Sweep(w.Ctx))
}

// ReportCluster is a report of a machine that has converged, with this of the cluster.
func (w *World) ReportCluster(nodeID string, facts *api.ClusterFacts) {
	w.Helper()
	s := w.Status(nodeID)
	s.Cluster = facts
	w.Report(nodeID, s)
}

// ReportNotJoined is a report of a machine that is no member of the cluster.
func (w *World) ReportNotJoined(nodeID string) {
	w.Helper()
	s := w.Status(nodeID)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == api.ConditionClusterMember || c.Type == api.ConditionReady {
			c.Status, c.Reason = api.ConditionFalse, api.ReasonNotJoined
		}
	}
	w.Report(nodeID, s)
}

// ReportVolumes is a report in which the condition of the PersistentVolumes is this one, and
// all others are True.
func (w *World) ReportVolumes(nodeID string, status api.ConditionStatus, reason api.Reason, message string) {
	w.Helper()
	w.ReportCondition(nodeID, api.ConditionPersistentVolumesRegistered, status, reason, message)
}

// ReportCondition is a report in which this condition is as given, and all others are True.
func (w *World) ReportCondition(nodeID, conditionType string, status api.ConditionStatus, reason api.Reason, message string) {
	w.Helper()
	s := w.Status(nodeID)
	c := s.Condition(conditionType)
	if c == nil {
		w.Fatalf("the configuration of %s does not call for %s", nodeID, conditionType)
	}
	c.Status, c.Reason, c.Message = status, reason, message
	if status != api.ConditionTrue {
		s.Condition(api.ConditionReady).Status = api.ConditionFalse
		s.AppliedGeneration, s.AppliedDigest = 0, ""
	}
	w.Report(nodeID, s)
}

// ReportAbsent is a report of the master that speaks for the cluster that the
// PersistentVolumes are gone.
func (w *World) ReportAbsent() {
	w.Helper()
	w.ReportVolumes(MasterServer, api.ConditionTrue, api.ReasonAbsent, "")
}

// ReportBound is a report of the master that these PersistentVolumes are bound.
func (w *World) ReportBound(bound ...api.BoundPersistentVolume) {
	w.Helper()
	s := w.Status(MasterServer)
	s.BoundPersistentVolumes = bound
	w.Report(MasterServer, s)
}
