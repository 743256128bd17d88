package pagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// change is an event about a condition.
func change(d time.Duration, n api.Node, kind, from, to string, reason api.Reason, message string) api.Event {
	e := event(0, d, api.HappenedConditionChanged, n, "")
	e.Condition, e.From, e.To, e.Reason, e.Message = kind, from, to, reason, message
	return e
}

// First is a first cluster in the middle of its INSTANTIATE.
func First() World {
	cluster := "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e"
	storage := node(cluster, "4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", "storage_server", api.RoleStorage, "10.10.0.5")
	master := node(cluster, "9c1e77d0-1b52-4a36-8d7e-5f0a61b2c3d4", "master1", api.RoleMaster, "10.10.0.11")
	worker := node(cluster, "e27f0f0c-58a4-4f0b-b1d9-0f9d6b7a8c11", "worker1", api.RoleWorker, "10.10.0.21")
	start := 74 * time.Second
	for _, n := range []*api.Node{&storage, &master, &worker} {
		n.EnrolledAt = at(start - 9*time.Second)
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastTransitionTime = ago(20 * time.Second)
		}
	}
	set(&master, condition(api.ConditionPersistentVolumesRegistered, api.ConditionUnknown, api.ReasonNotReported, 30*time.Second, ""))
	master.Withheld = []api.Withheld{{Section: api.SectionPersistentVolumes, Reason: api.ReasonWaitingForExports, NodeID: master.ID, WaitsFor: storage.ID,
		Message: "storage_server does not serve /volume/nfs of its present configuration yet"}}
	set(&worker, condition(api.ConditionRegistriesConnected, api.ConditionFalse, api.ReasonConverging, 12*time.Second, ""))
	worker.Status.Activity = &api.Activity{Condition: api.ConditionRegistriesConnected, Summary: "restarting containerd for registry.example.com", StartedAt: ago(4 * time.Second)}
	set(&storage, condition(api.ConditionExportsServed, api.ConditionFalse, api.ReasonNotMounted, 6*time.Second, "/volume is not mounted"))
	storage.Status.Activity = &api.Activity{Condition: api.ConditionExportsServed, Summary: "enable and start nfs-server.service", StartedAt: ago(5 * time.Second)}
	for _, n := range []*api.Node{&storage, &master, &worker} {
		n.Status.AppliedGeneration, n.Status.AppliedDigest = 0, ""
	}
	volume := api.Volume{ID: "7be1cf24-5d0a-4d8f-8f63-2a4f5c1e9b77", ResourceID: "storage_server_volume", SizeBytes: 100 << 30, VnfInstanceID: cluster, NodeID: storage.ID,
		PermitState: api.PermitFormatted, PermitNodeID: storage.ID, ChangedAt: at(40 * time.Second), FilesystemUUID: "6f4d8d53-2f64-5b60-8f3c-0d8a6a1f9b10"}
	operation := api.Operation{ID: cluster + "/2", Sequence: 2, VnfInstanceID: cluster, Operation: api.Instantiate, Phase: api.PhaseEnd, State: api.Processing,
		StartedAt: ago(start), Deadline: ago(start).Add(30 * time.Minute), StackID: "vnflcm_0b1a5c2e", IdempotencyKey: "tacker-5d1c/INSTANTIATE/END",
		Targets: []api.OperationTarget{
			{NodeID: storage.ID, Name: storage.Name, Reason: api.ReasonNotMounted, Message: "ExportsServed: /volume is not mounted"},
			{NodeID: master.ID, Name: master.Name, Reason: api.ReasonWaitingForExports, WaitsFor: storage.ID},
			{NodeID: worker.ID, Name: worker.Name, Reason: api.ReasonConverging, Message: "restarting containerd for registry.example.com"}},
		Warnings: []api.Fault{{Pointer: "/additionalParams/k8s_cluster_installation_param/proxy/no_proxy", Message: "does not name registry.example.com; agents reach it through the proxy"}}}
	begun := operation
	begun.ID, begun.Sequence, begun.Phase, begun.State, begun.Targets, begun.StartedAt, begun.FinishedAt, begun.Warnings = cluster+"/1", 1, api.PhaseStart, api.Completed, nil, ago(4*time.Minute), at(4*time.Minute-time.Second), nil
	i := instance(cluster, api.KubernetesCluster, []api.Node{storage, master, worker})
	i.State, i.CreatedAt, i.UpdatedAt, i.Stack.ObservedAt = api.NotInstantiated, ago(5*time.Minute), ago(start), at(start)
	i.DesiredVersion = 2
	operated := api.Event{At: ago(start), Type: api.HappenedOperationStarted, OperationID: operation.ID, VnfInstanceID: cluster, To: "PROCESSING", Message: "INSTANTIATE", By: "token tacker"}
	formatted := api.Event{At: ago(40 * time.Second), Type: api.HappenedVolumeFormatted, VolumeID: volume.ID, NodeID: storage.ID, VnfInstanceID: cluster, From: "Started", To: "Formatted", By: "node " + storage.ID}
	given := func(d time.Duration, n api.Node, seen time.Duration) []api.Event {
		g, o := event(0, d, api.HappenedDocumentGiven, n, "token tacker"), event(0, seen, api.HappenedDocumentObserved, n, "")
		g.Generation, o.Generation = 3, 3
		return []api.Event{g, o}
	}
	events := []api.Event{
		{At: ago(5 * time.Minute), Type: api.HappenedInstanceCreated, VnfInstanceID: cluster, By: "token tacker"},
		{At: ago(5 * time.Minute), Type: api.HappenedDesiredStateChanged, VnfInstanceID: cluster, To: "1", By: "token tacker"},
		operated,
		{At: ago(start), Type: api.HappenedDesiredStateChanged, VnfInstanceID: cluster, From: "1", To: "2", By: "token tacker"},
	}
	for k, n := range []api.Node{storage, master, worker} {
		enrolled := event(0, start-time.Duration(8+3*k)*time.Second, api.HappenedEnrolled, n, "")
		enrolled.Message = "nova-nonce"
		events = append(events, event(0, start, api.HappenedServerExpected, n, "token tacker"), enrolled)
		events = append(events, given(start-time.Duration(8+3*k)*time.Second, n, start-time.Duration(10+4*k)*time.Second)...)
	}
	events = append(events,
		change(50*time.Second, worker, api.ConditionNFSClientInstalled, "", "False", api.ReasonPackageManagerBusy, ""),
		change(46*time.Second, storage, api.ConditionVolumesMounted, "", "False", api.ReasonConverging, ""),
		formatted,
		change(38*time.Second, storage, api.ConditionVolumesMounted, "False", "True", api.ReasonMounted, ""),
		change(30*time.Second, master, api.ConditionNFSClientInstalled, "", "True", api.ReasonInstalled, ""),
		change(24*time.Second, worker, api.ConditionNFSClientInstalled, "False", "True", api.ReasonInstalled, ""),
		change(22*time.Second, master, api.ConditionRegistriesConnected, "", "True", api.ReasonConnected, ""),
		change(12*time.Second, worker, api.ConditionRegistriesConnected, "", "False", api.ReasonConverging, ""),
		change(6*time.Second, storage, api.ConditionExportsServed, "", "False", api.ReasonNotMounted, "/volume is not mounted"),
	)
	slices.SortStableFunc(events, func(a, b api.Event) int { return a.At.Compare(b.At) })
	return World{Instances: []api.Instance{i}, Nodes: []api.Node{storage, master, worker}, Operations: []api.Operation{operation, begun}, Volumes: []api.Volume{volume},
		Rollout: api.AgentRollout{State: api.RolloutComplete, Mode: api.UpgradeAutomatically, Version: "v1.0.0", Carried: carried(), MaxUnavailable: 5,
			Nodes: []api.AgentCount{{Version: "v1.0.0", State: api.AgentUpToDate, Nodes: 3}}},
		Events: numbered(events)}
}

// Fleet is many nodes, nearly all Ready, in instances of 50.
func Fleet(nodes int) World {
	var w World
	const each = 50
	for g := 0; len(w.Nodes) < nodes; g++ {
		cluster, named := id(g+100, 1), fmt.Sprintf("site %02d", g)
		var of []api.Node
		for n := range min(each, nodes-len(w.Nodes)) {
			role, name := api.RoleWorker, fmt.Sprintf("worker-%02d", n)
			switch {
			case n == 0:
				role, name = api.RoleStorage, "storage_server"
			case n < 4:
				role, name = api.RoleMaster, fmt.Sprintf("master-%d", n)
			}
			node := node(cluster, id(g+100, n+1000), fmt.Sprintf("c%02d-%s", g, name), role, fmt.Sprintf("10.%d.0.%d", 20+g, n+5))
			node.VnfInstanceName = named
			switch k := g*each + n; {
			case k%331 == 17:
				node.State, node.Ready, node.LastSeenAt = api.NodeLost, false, at(time.Duration(4+k%20)*time.Minute)
			case k%173 == 9:
				node.State, node.Ready, node.Status, node.LastSeenAt, node.EnrolledAt = api.NodeExpected, false, nil, nil, nil
			case k%97 == 31 && role == api.RoleWorker:
				set(&node, condition(api.ConditionRegistriesConnected, api.ConditionFalse, api.ReasonUnreachable, 3*time.Minute, "registry.example.com: dial tcp 192.168.0.20:443: connect: no route to host"))
			case k%41 == 7:
				node.Status.Facts.AgentVersion = "v0.9.4"
			}
			of = append(of, node)
		}
		i := instance(cluster, api.KubernetesCluster, of)
		i.Name = named
		w.Instances = append(w.Instances, i)
		w.Nodes = append(w.Nodes, of...)
		w.Volumes = append(w.Volumes, api.Volume{ID: id(g+100, 9), ResourceID: "storage_server_volume", SizeBytes: 500 << 30, VnfInstanceID: cluster, VnfInstanceName: named, NodeID: of[0].ID,
			PermitState: api.PermitFormatted, PermitNodeID: of[0].ID, ChangedAt: at(26 * time.Hour), FilesystemUUID: id(g+100, 10)})
		o := api.Operation{ID: cluster + "/7", Sequence: 7, VnfInstanceID: cluster, VnfInstanceName: named, Operation: api.Scale, Type: api.ScaleOut, Phase: api.PhaseEnd, State: api.Completed,
			StartedAt: ago(time.Duration(g+1) * 37 * time.Minute), FinishedAt: at(time.Duration(g+1)*37*time.Minute - 95*time.Second), StackID: cluster}
		o.Deadline = o.StartedAt.Add(30 * time.Minute)
		if g == 0 {
			o.State, o.FinishedAt, o.StartedAt, o.Deadline = api.Processing, nil, ago(3*time.Minute), ago(3*time.Minute).Add(30*time.Minute)
		}
		for _, n := range of {
			t := api.OperationTarget{NodeID: n.ID, Name: n.Name, Ready: n.Ready || g > 0}
			if !t.Ready {
				t.Reason, t.Message = api.ReasonUnreachable, "RegistriesConnected: registry.example.com does not answer"
				if n.Status == nil {
					t.Reason, t.Message = api.ReasonNotEnrolled, ""
				}
			}
			o.Targets = append(o.Targets, t)
		}
		w.Operations = append(w.Operations, o)
	}
	first := w.Instances[0]
	w.Events = append(w.Events, api.Event{At: ago(3 * time.Minute), Type: api.HappenedOperationStarted, OperationID: first.ID + "/7", VnfInstanceID: first.ID, To: "PROCESSING", Message: "SCALE_OUT", By: "token tacker"})
	for k, n := range w.Nodes[:each] {
		d := 3*time.Minute - time.Duration(k)*900*time.Millisecond
		e := event(0, d-4*time.Second, api.HappenedEnrolled, n, "")
		w.Events = append(w.Events, e, change(d-14*time.Second, n, ofRole[n.Role][0], "", "True", good[ofRole[n.Role][0]], ""), change(d-23*time.Second, n, api.ConditionReady, "", "True", api.ReasonReady, ""))
	}
	slices.SortStableFunc(w.Events, func(a, b api.Event) int { return a.At.Compare(b.At) })
	numbered(w.Events)
	w.Rollout = api.AgentRollout{State: api.RolloutProgressing, Mode: api.UpgradeAutomatically, Version: "v1.0.0", StartedAt: at(12 * time.Minute), StartedBy: "token alice", Wave: 9, MaxUnavailable: 5, Carried: carried(),
		Message: "41 nodes wait for their turn", InFlight: []api.AgentInFlight{
			{Name: w.Nodes[7].Name, NodeID: w.Nodes[7].ID, VnfInstanceID: first.ID, Version: "v0.9.4", To: "v1.0.0", Wave: 9, Since: ago(20 * time.Second), Reason: api.UpgradeProbation, Message: "waits for a poll that is answered"},
			{Name: w.Nodes[48].Name, NodeID: w.Nodes[48].ID, VnfInstanceID: first.ID, Version: "v0.9.4", To: "v1.0.0", Wave: 9, Since: ago(21 * time.Second), Reason: api.UpgradeDownloading}},
		Nodes: []api.AgentCount{{Version: "v0.9.4", State: api.AgentInFlightState, Nodes: 2}, {Version: "v0.9.4", State: api.AgentWaiting, Nodes: 41}, {Version: "v1.0.0", State: api.AgentUpToDate, Nodes: len(w.Nodes) - 43}}}
	w.Replicas = []api.Replica{replica("controller-a", api.ReplicaFollower), replica("controller-b", api.ReplicaLeader), replica("controller-c", api.ReplicaFollower)}
	return w
}

// Broken is a controller after a bad day: each reason, each state and each kind of decision.
func Broken() World {
	w := First()
	cluster := w.Instances[0].ID
	w.Instances[0].State = api.Instantiated
	w.Instances[0].Warnings = []api.Fault{{Pointer: "/additionalParams/k8s_cluster_installation_param/worker_node/labels", Message: "is not known and has no effect; did you mean label?"}}
	w.Instances[0].MissingFiles = []string{"Files/kubernetes/pv.yaml", "Files/registries/a-very-long-directory-name/another-very-long-directory-name/certificate-authority-of-the-second-registry.crt"}
	w.Instances[0].Files[1].Faults = []api.Fault{{Message: "holds a private key; expected a certificate (PEM) and nothing else"}}
	w.Instances[0].Stack = &api.StackObservation{Name: "vnflcm_0b1a5c2e", Status: "UPDATE_FAILED", StatusReason: "Resource UPDATE failed: NoValidHost: resources.worker_instance.resources[3]: No valid host was found.", ObservedAt: at(50 * time.Minute), Source: api.ObservedInRequest}
	restored := instance("c4d2f7a0-33bb-4a52-a0c1-9e8f7d6c5b4a", api.PrivateRegistry, nil)
	restored.Unconfirmed, restored.Restored = true, &api.RestoreOrigin{TakenAt: ago(30 * time.Hour), RestoredAt: ago(20 * time.Minute)}
	registry := node(restored.ID, "5b7a9c3d-0e1f-4a2b-8c3d-4e5f6a7b8c9d", "registry", api.RoleRegistry, "192.168.0.10")
	registry.Unconfirmed, registry.Ready = true, false
	restored.Nodes = []string{registry.ID}
	w.Instances = append(w.Instances, restored)
	w.Nodes = append(w.Nodes, registry)
	n := 0
	var reasons []api.Reason
	for reason := range api.Reasons {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		if slices.Contains([]api.Reason{api.ReasonReady, api.ReasonMounted}, reason) {
			continue
		}
		n++
		one := node(cluster, id(9, n), fmt.Sprintf("broken-%02d", n), api.RoleWorker, fmt.Sprintf("10.66.0.%d", n))
		kinds := api.ConditionTypes()
		kind := kinds[n%len(kinds)]
		one.Status.Conditions = nil
		for _, other := range kinds {
			if other != kind {
				one.Status.Conditions = append(one.Status.Conditions, condition(other, api.ConditionTrue, good[other], time.Hour, ""))
			}
		}
		set(&one, condition(kind, api.ConditionFalse, reason, time.Duration(n)*time.Minute, "expected what the document says, and found what "+reason+" says; `journalctl -u nodehitch-agent` has more"))
		switch n % 9 {
		case 2:
			one.State, one.LastSeenAt = api.NodeLost, at(time.Duration(n)*time.Hour)
		case 4:
			one.State = api.NodeRevoked
		case 6:
			one.State, one.Status, one.EnrolledAt, one.LastSeenAt = api.NodeExpected, nil, nil, nil
		case 7:
			one.Withheld = []api.Withheld{{Section: api.SectionRegistries, Reason: reason, NodeID: one.ID, Message: "Files/registries/ca.crt is not on the controller"}}
		case 8:
			one.Status.AgentUpgrade = &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: api.UpgradeRolledBack, Version: "v1.1.0", Message: "no poll was answered within 5 minutes",
				Refused: []api.RefusedAgent{{Version: "v1.1.0", Sha256: digest(44), At: ago(time.Hour)}}}
		}
		w.Nodes = append(w.Nodes, one)
	}
	foreign := node(cluster, id(9, 777), "storage_server_of_a_project_with_a_very_long_name_that_nobody_shortened_in_time", api.RoleStorage, "10.66.1.1")
	adoptable := api.AdoptableVolume{VolumeID: id(12, 0), FilesystemUUID: "1f0c1b1e-5f0e-4a53-a7d6-0c6f5f1f6f52"}
	mounted := condition(api.ConditionVolumesMounted, api.ConditionFalse, api.ReasonForeignData, 40*time.Minute, "volume "+id(12, 0)+": /dev/disk/by-id/virtio-b0057000-0000-4000-8 holds ext4 (UUID 1f0c1b1e-5f0e-4a53-a7d6-0c6f5f1f6f52); expected a blank disk or the ext4 filesystem "+id(13, 0)+
		": keep it with `hitchctl volume adopt "+adoptable.VolumeID+" --filesystem-uuid "+adoptable.FilesystemUUID+"`, or erase it with `hitchctl volume reformat "+id(12, 0)+"`")
	mounted.Adoptable = []api.AdoptableVolume{adoptable}
	set(&foreign, mounted)
	w.Nodes = append(w.Nodes, foreign)
	states := []api.PermitState{api.PermitNone, api.PermitGranted, api.PermitStarted, api.PermitFormatted, api.PermitInterrupted, api.PermitAdopted}
	for k, state := range states {
		v := api.Volume{ID: id(12, k), ResourceID: fmt.Sprintf("volume_%d", k), SizeBytes: int64(k+1) << 30, VnfInstanceID: cluster, PermitState: state, PermitNodeID: foreign.ID, ChangedAt: at(time.Duration(k+1) * time.Hour), FilesystemUUID: id(13, k)}
		if state == api.PermitNone {
			v.NodeID, v.PermitNodeID = foreign.ID, ""
		}
		w.Volumes = append(w.Volumes, v)
	}
	w.Volumes = append(w.Volumes, api.Volume{ID: id(12, 90), ResourceID: "registry_volume", VnfInstanceID: restored.ID, NodeID: registry.ID, PermitState: api.PermitNone, Unconfirmed: true, FilesystemUUID: id(13, 90)},
		api.Volume{ID: id(12, 91), ResourceID: "erased_volume", VnfInstanceID: cluster, NodeID: foreign.ID, PermitState: api.PermitInterrupted, ReformatRequested: true, FilesystemUUID: id(13, 91)})
	failed := api.Operation{ID: cluster + "/3", Sequence: 3, VnfInstanceID: cluster, Operation: api.Heal, Phase: api.PhaseEnd, State: api.Failed, StartedAt: ago(50 * time.Minute), FinishedAt: at(20 * time.Minute), Deadline: ago(20 * time.Minute),
		Error: api.NewProblem(api.ProblemTargetsFailed, "storage_server_of_a_project_with_a_very_long_name_that_nobody_shortened_in_time: ForeignData; run `hitchctl volume adopt` to keep an ext4, or `hitchctl volume reformat` to erase the disk"),
		Targets: []api.OperationTarget{
			{NodeID: foreign.ID, Name: foreign.Name, Reason: api.ReasonForeignData, Final: true, Message: "VolumesMounted: the disk holds xfs"},
			{NodeID: w.Nodes[1].ID, Name: w.Nodes[1].Name, Reason: api.ReasonWaitingForExports, WaitsFor: foreign.ID}, {NodeID: w.Nodes[2].ID, Name: w.Nodes[2].Name, Ready: true}},
		Leaving:  []api.LeavingMember{{Name: "worker9", NodeID: id(9, 9)}},
		Withheld: []api.Withheld{{Section: api.SectionPersistentVolumes, Reason: api.ReasonFileMissing, NodeID: w.Nodes[1].ID, Message: "Files/kubernetes/pv.yaml is not on the controller"}}, Force: true}
	w.Operations[0].State, w.Operations[0].FinishedAt = api.Completed, at(10*time.Second)
	w.Operations = append([]api.Operation{failed}, w.Operations...)
	leaving := api.Operation{ID: restored.ID + "/4", Sequence: 4, VnfInstanceID: restored.ID, Operation: api.Scale, Type: api.ScaleIn, Phase: api.PhaseStart, State: api.Processing, StartedAt: ago(28 * time.Minute), Deadline: ago(-2 * time.Minute),
		Leaving: []api.LeavingMember{{Name: "worker7", NodeID: id(9, 7)}},
		Targets: []api.OperationTarget{{NodeID: w.Nodes[1].ID, Name: w.Nodes[1].Name, Reason: api.ReasonEvictionBlocked, Message: "default/db-0: the PodDisruptionBudget db allows no disruption"}}}
	w.Operations = append([]api.Operation{leaving}, w.Operations...)
	w.Rollout = api.AgentRollout{State: api.RolloutStopped, Mode: api.UpgradeManually, Version: "v1.1.0", StartedAt: at(time.Hour), StartedBy: "token alice", Wave: 2, MaxUnavailable: 2, Carried: carried(),
		Message: "node broken-08 has rolled v1.1.0 back: no poll was answered within 5 minutes. Read its journal, then `hitchctl agents upgrade`",
		Nodes: []api.AgentCount{{Version: "", State: api.AgentNotSupported, Nodes: 1}, {Version: "v0.9.4", State: api.AgentWaiting, Nodes: 12}, {Version: "v1.0.0", State: api.AgentRolledBack, Nodes: 7},
			{Version: "v1.0.0", State: api.AgentLost, Nodes: 7}, {Version: "v1.0.0", State: api.AgentNotReady, Nodes: 31}, {Version: "v1.0.0", State: api.AgentManagedByPackage, Nodes: 4}, {Version: "v1.1.0", State: api.AgentUpToDate, Nodes: 5}}}
	w.Events = append(w.Events,
		api.Event{At: ago(50 * time.Minute), Type: api.HappenedOperationStarted, OperationID: failed.ID, VnfInstanceID: cluster, To: "PROCESSING", Message: "HEAL, PersistentVolumes: keep", By: "token tacker"},
		change(48*time.Minute, foreign, api.ConditionVolumesMounted, "True", "False", api.ReasonForeignData, "the disk holds xfs"),
		api.Event{At: ago(45 * time.Minute), Type: api.HappenedFormatInterrupted, VolumeID: id(12, 4), VnfInstanceID: cluster, From: "Started", To: "Interrupted", By: "controller"},
		api.Event{At: ago(20 * time.Minute), Type: api.HappenedOperationEnded, OperationID: failed.ID, VnfInstanceID: cluster, From: "PROCESSING", To: "FAILED", Reason: "targets-failed", Message: failed.Error.Detail, By: "controller"},
		api.Event{At: ago(19 * time.Minute), Type: api.HappenedRevoked, NodeID: w.Nodes[8].ID, NodeName: w.Nodes[8].Name, VnfInstanceID: cluster, Message: "by token alice", By: "token alice"})
	slices.SortStableFunc(w.Events, func(a, b api.Event) int { return a.At.Compare(b.At) })
	numbered(w.Events)
	behind, silent, late := replica("controller-with-a-name-that-nobody-shortened.example.com", api.ReplicaFollower), replica("controller-c", api.ReplicaFollower), 41.3
	behind.LagSeconds, behind.Message, behind.Version = &late, "etcd has not confirmed in time that this controller knows all that was committed", "v1.0.0-rc.12+build.20261125"
	silent.LagSeconds, silent.Message = nil, "it does not answer the leader"
	asked := replica("controller-d", api.ReplicaFollower)
	asked.LagSeconds = nil
	w.Replicas = []api.Replica{replica("controller-a", api.ReplicaLeader), behind, silent, asked, replica("controller-e", api.ReplicaStandby)}
	return w
}

// Hostile is a world whose every text from outside tries to be HTML.
func Hostile() World {
	const attack = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`" + `</title><!--{{.}}` + "\u202e"
	w := Broken()
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.Name, n.VnfInstanceName, n.Addresses, n.CertificateSerial = attack, attack, []string{attack}, attack
		for k := range n.Withheld {
			n.Withheld[k].Message, n.Withheld[k].Section, n.Withheld[k].Reason = attack, attack, attack
		}
		if n.Status == nil {
			continue
		}
		n.Status.Facts = api.Facts{AgentVersion: attack, Hostname: attack, OSImage: attack, KernelVersion: attack, Architecture: attack}
		n.Status.Activity = &api.Activity{Summary: attack, Condition: attack, StartedAt: ago(time.Second)}
		n.Status.LastFailedGeneration, n.Status.LastFailedCondition = 2, attack
		n.Status.AgentUpgrade = &api.AgentUpgrade{Reason: attack, Message: attack, Version: attack, Refused: []api.RefusedAgent{{Version: attack, Sha256: attack}}}
		for k := range n.Status.Conditions {
			c := &n.Status.Conditions[k]
			c.Message, c.Reason = attack, attack
			if k == 0 {
				c.Type = attack
			}
		}
	}
	for i := range w.Instances {
		x := &w.Instances[i]
		x.Name, x.Labels, x.StackID, x.MissingFiles = attack, map[string]string{attack: attack}, attack, []string{attack}
		x.Stack = &api.StackObservation{Name: attack, Status: attack, StatusReason: attack}
		x.Files = []api.PackageFile{{Path: attack, Sha256: attack, Faults: []api.Fault{{Pointer: attack, Message: attack}}}}
		x.Warnings = []api.Fault{{Pointer: attack, Message: attack}}
		x.Topology = &api.Topology{Servers: []api.Server{{ID: attack, Name: attack, VnfcInstanceID: attack, MemberStackID: attack, AvailabilityZone: attack, HypervisorHostname: attack}}}
		x.AdditionalParams = []byte(strings.ReplaceAll(string(x.AdditionalParams), "user01", `\"><script>alert(3)</script>`))
	}
	for i := range w.Operations {
		o := &w.Operations[i]
		o.VnfInstanceName, o.StackID, o.IdempotencyKey, o.CancelledBy = attack, attack, attack, attack
		o.Error = &api.Problem{Title: attack, Detail: attack, Type: attack, InvalidParams: []api.Fault{{Pointer: attack, Message: attack}}}
		o.Warnings = []api.Fault{{Pointer: attack, Message: attack}}
		for k := range o.Targets {
			o.Targets[k].Name, o.Targets[k].Message, o.Targets[k].Reason = attack, attack, attack
		}
		for k := range o.Leaving {
			o.Leaving[k].Name = attack
		}
		for k := range o.Withheld {
			o.Withheld[k].Message = attack
		}
	}
	for i := range w.Volumes {
		w.Volumes[i].ResourceID, w.Volumes[i].FilesystemUUID = attack, attack
	}
	for i := range w.Events {
		e := &w.Events[i]
		e.NodeName, e.Message, e.Reason, e.By, e.From = attack, attack, attack, attack, attack
	}
	for i := range w.Replicas {
		r := &w.Replicas[i]
		r.ID, r.Version, r.URL, r.Message = attack, attack, attack, attack
	}
	w.Rollout.Message, w.Rollout.Version, w.Rollout.StartedBy = attack, attack, attack
	w.Rollout.InFlight = []api.AgentInFlight{{Name: attack, NodeID: attack, Version: attack, To: attack, Reason: attack, Message: attack}}
	w.Rollout.Nodes = append(w.Rollout.Nodes, api.AgentCount{Version: attack, State: attack, Nodes: 1})
	return w
}
