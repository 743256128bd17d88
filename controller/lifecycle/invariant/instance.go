package invariant

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// instance: its pointers lead somewhere, and at most one operation is in progress.
func (r *records) instance(i store.Instance) {
	wrong := func(ok bool, format string, args ...any) {
		r.want(ok, "instance %s: %s", i.ID, fmt.Sprintf(format, args...))
	}
	d, ok := r.desired[store.DesiredKey(i.ID, i.DesiredVersion)]
	wrong(ok, "its desired version %d is missing", i.DesiredVersion)
	wrong(i.DesiredVersion <= i.LastVersion, "version %d is in force and the newest is %d", i.DesiredVersion, i.LastVersion)
	r.unseals("the parameters of instance "+i.ID, d.AdditionalParams)
	r.unseals("the VIM connections of instance "+i.ID, d.VIMConnectionInfo)
	r.cluster(i)
	r.volumeServer(i)
	wrong(i.JoinTokenID != "" && len(i.JoinTokenMAC) == 32, "its join token is not whole")
	wrong(slices.IsSorted(i.NodeIDs) && slices.IsSorted(i.VolumeIDs), "its nodes or volumes are out of order")
	for _, id := range i.VolumeIDs {
		wrong(slices.ContainsFunc(r.volumes, func(v store.Volume) bool { return v.ID == id }), "its volume %s is missing", id)
	}
	wrong(i.AwaitingEndSequence == 0 || i.AwaitingEndSequence != i.ProcessingSequence, "operation %d is in progress and over", i.AwaitingEndSequence)
	start := r.operations[store.OperationKey(i.ID, max(i.ProcessingSequence, i.AwaitingEndSequence))]
	wrong(!d.WithdrawPersistentVolumes || start.Phase == api.PhaseStart, "PersistentVolumes are withdrawn and no START is in progress or awaits its END")
	sequences := r.sequences(i.ID)
	wrong(len(d.Leaving) == 0 || start.Phase == api.PhaseStart || r.leftBehind(i, sequences), "members leave the cluster and no START is in progress or awaits its END, or was a SCALE_IN")
	wrong(!d.Force || len(d.Leaving) > 0, "nobody leaves the cluster by force")
	r.speakers(i)
	for _, sequence := range sequences {
		wrong(sequence <= i.LastSequence, "there is an operation %d and the newest is %d", sequence, i.LastSequence)
		r.operation(i, r.operations[store.OperationKey(i.ID, sequence)])
	}
	r.inUse(i, sequences)
}

// volumeServer: the storage server that may write to the volumes is or was a node, and the cloud is
// asked only about one that the topology lacks.
func (r *records) volumeServer(i store.Instance) {
	id := i.CarriedOver.VolumeServer
	r.want(id == "" || has(i.NodeIDs, id), "instance %s: the server %s that may write to its volumes is none of its nodes", i.ID, id)
	r.want(i.CarriedOver.VolumeServerShown == "" || id != "" && !r.nodes[id].Expected, "instance %s: the cloud was asked about %q, which is no old storage server", i.ID, id)
}

// cluster: its secrets are whole, and nothing is known of a cluster without members.
func (r *records) cluster(i store.Instance) {
	secret := r.unseals("the cluster secret of instance "+i.ID, i.ClusterSecret)
	facts := r.unseals("what is known of the cluster of instance "+i.ID, i.ClusterFacts)
	members := i.CarriedOver.Members
	r.want(len(secret) == 0 || len(secret) == 32, "instance %s: its cluster secret has %d bytes", i.ID, len(secret))
	r.want(len(facts) == 0 || len(members) > 0 && len(secret) > 0, "instance %s: a cluster is known, and has no members", i.ID)
	r.want(slices.IsSorted(members), "instance %s: the members %v of its cluster are out of order", i.ID, members)
	r.want(slices.IsSorted(i.CarriedOver.Wave), "instance %s: the members %v that are upgraded are out of order", i.ID, i.CarriedOver.Wave)
	r.want(len(i.CarriedOver.Wave) == 0 && i.CarriedOver.Renews == "" || len(members) > 0, "instance %s: members are upgraded or renew their certificates, and there is no cluster", i.ID)
	for _, id := range members {
		r.want(has(i.NodeIDs, id), "instance %s: the member %s of its cluster is none of its nodes", i.ID, id)
	}
}

// leftBehind reports whether the newest operation that put anything in force is a SCALE_IN
// START: no END has to follow.
func (r *records) leftBehind(i store.Instance, sequences []int64) bool {
	for _, sequence := range slices.Backward(sequences) {
		if o := r.operations[store.OperationKey(i.ID, sequence)]; !o.StackFailed() {
			return o.Phase == api.PhaseStart && o.Request.Type == api.ScaleIn && o.State == api.Completed
		}
	}
	return false
}

// speakers: one master at most speaks for the cluster.
func (r *records) speakers(i store.Instance) {
	var ids []string
	for _, id := range i.NodeIDs {
		if n := r.nodes[id]; n.InstanceID == i.ID && slices.ContainsFunc(n.Conditions, isOfOneMaster) {
			ids = append(ids, id)
		}
	}
	r.want(len(ids) <= 1, "instance %s: the documents of %v all have what one master does for the cluster", i.ID, ids)
}

func isOfOneMaster(condition string) bool {
	return slices.Contains([]string{api.ConditionPersistentVolumesRegistered, api.ConditionClusterMembersCurrent,
		api.ConditionClusterMembersLeft, api.ConditionClusterMembersDrained, api.ConditionClusterAccessReady, api.ConditionPodNetworkReady}, condition)
}

// sequences are the numbers of the operations of an instance, in order.
func (r *records) sequences(instanceID string) (list []int64) {
	for _, o := range r.operations {
		if o.VnfInstanceID == instanceID {
			list = append(list, o.Sequence)
		}
	}
	slices.Sort(list)
	return list
}

// passedOver reports whether the newest number may be unused: after a restore the numbers
// continue at its epoch.
func (r *records) passedOver(i store.Instance) bool {
	return i.LastSequence == 0 || r.store.Origin() != nil && i.LastSequence <= r.store.Epoch()
}

// inUse: what is in use of an instance's past is there, however much of it is deleted.
func (r *records) inUse(i store.Instance, sequences []int64) {
	wrong := func(ok bool, format string, args ...any) {
		r.want(ok, "instance %s: %s", i.ID, fmt.Sprintf(format, args...))
	}
	refers := func(sequence int64, versions ...int64) {
		for _, version := range versions {
			_, ok := r.desired[store.DesiredKey(i.ID, version)]
			wrong(ok || version == 0, "version %d of its desired state is missing, and operation %d needs it", version, sequence)
		}
	}
	_, ok := r.desired[store.DesiredKey(i.ID, i.LastVersion)]
	wrong(ok, "version %d of its desired state is missing, the newest", i.LastVersion)
	wrong(r.passedOver(i) || slices.Contains(sequences, i.LastSequence), "operation %d is missing, the newest", i.LastSequence)
	for _, sequence := range []int64{i.ProcessingSequence, i.AwaitingEndSequence} {
		o, ok := r.operations[store.OperationKey(i.ID, sequence)]
		wrong(ok || sequence == 0, "operation %d is missing, and is in progress or awaited", sequence)
		refers(sequence, o.PreviousVersion)
	}
	for _, sequence := range slices.Backward(sequences) {
		if o := r.operations[store.OperationKey(i.ID, sequence)]; o.Phase == api.PhaseEnd {
			refers(sequence, o.BaseVersion, o.CreatedVersion, o.PreviousVersion)
			return
		}
	}
}

func (r *records) operation(i store.Instance, o store.Operation) {
	wrong := func(ok bool, format string, args ...any) {
		r.want(ok, "operation %d of instance %s: %s", o.Sequence, i.ID, fmt.Sprintf(format, args...))
	}
	wrong(o.ID == api.OperationID(i.ID, o.Sequence), "its id is %q", o.ID)
	wrong(o.State.Valid(), "its state is %q", o.State)
	wrong((o.State == api.Processing) == (i.ProcessingSequence == o.Sequence), "it is %s and the operation in progress is %d", o.State, i.ProcessingSequence)
	wrong((o.State == api.Processing) == (o.FinishedAt == nil), "it is %s and ended at %v", o.State, o.FinishedAt)
	wrong((o.State == api.Failed) == (o.Error != nil), "it is %s with the error %v", o.State, o.Error)
	cancelled := o.Error != nil && o.Error.Type == api.ProblemCancelled
	wrong(cancelled == (o.CancelledBy != ""), "%q cancelled it and its error is %v", o.CancelledBy, o.Error)
	wrong(!o.Joined, "it says that a request joined it")
	withdraws := r.desired[store.DesiredKey(i.ID, i.DesiredVersion)].Withdraws()
	wrong(o.State != api.Processing || o.Phase == api.PhaseEnd || withdraws, "it is a START in progress and withdraws nothing")
	if i.AwaitingEndSequence == o.Sequence {
		wrong(o.Phase == api.PhaseStart && o.State == api.Completed && (o.CreatedVersion != 0 || withdraws), "its END is awaited, and it is a %s that is %s", o.Phase, o.State)
	}
	for _, version := range []int64{o.CreatedVersion, o.PreviousVersion, o.BaseVersion} {
		wrong(version >= 0 && version <= i.LastVersion, "it refers to version %d of %d", version, i.LastVersion)
	}
	if o.State == api.Completed && o.Phase == api.PhaseEnd {
		wrong(len(o.Withheld) == 0, "it is completed with something withheld")
		for _, t := range o.Targets {
			wrong(t.Ready, "it is completed and its target %s is not ready", t.NodeID)
		}
	}
}

// file: it has a path, and its content is there, whole.
func (r *records) file(f store.File) {
	r.want(f.InstanceID != "" && f.Path != "" && len(f.SHA256) == 64, "the file %s of instance %s is not whole", f.Path, f.InstanceID)
	if r.blob == nil {
		return
	}
	size, err := r.blob(f.SHA256)
	r.want(err == nil && size == f.SizeBytes, "the content of the file %s of instance %s should be there with %d bytes, and has %d (%v)",
		f.Path, f.InstanceID, f.SizeBytes, size, err)
}
