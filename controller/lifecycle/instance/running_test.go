package instance_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What a cluster was made with stays, and versions go up one minor at a time. Everything that is wrong
// is said at once, and nothing is kept.
func TestWhatStaysInAClusterThatIsThere(t *testing.T) {
	edited := func(edits ...string) json.RawMessage {
		return json.RawMessage(strings.NewReplacer(edits...).Replace(string(lifecycletest.WithKubernetes(nil).AdditionalParams)))
	}
	const at = "/additionalParams/k8s_cluster_installation_param"
	masters := `"cluster_cp_name": "masterNode_CP1"`
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.WorkerServer))
	version := w.Instance().DesiredVersion
	for name, c := range map[string]struct {
		params json.RawMessage
		want   map[string]string
	}{
		"all at once": {edited("1.34.4", "1.33.0", masters, `"cluster_cp_name": "vip_CP", "pod_cidr": "10.1.0.0/16", "cluster_cidr": "10.2.0.0/16"`,
			`"kubernetes": {`, `"cluster_members": {"endpoint_port": 443}, "kubernetes": {"image_repository": "10.10.0.3:5000/k8s", `), map[string]string{
			at + "/master_node/pod_cidr":          "is 10.1.0.0/16, and the cluster was made with 192.168.0.0/16",
			at + "/master_node/cluster_cidr":      "is 10.2.0.0/16, and the cluster was made with 10.96.0.0/12",
			at + "/master_node/cluster_cp_name":   "is vip_CP, and the cluster was made with masterNode_CP1",
			at + "/cluster_members/endpoint_port": "is 443, and the cluster was made with 6443",
			at + "/kubernetes/image_repository":   "is 10.10.0.3:5000/k8s, and the cluster was made with absent",
			at + "/kubernetes/version":            `is "1.33.0", and members are at 1.34.4`,
		}},
		"a minor version that is skipped": {edited("1.34.4", "1.36.0"), map[string]string{at + "/kubernetes/version": "give a version of 1.35 first"}},
		"a lower patch":                   {edited("1.34.4", "1.34.3"), map[string]string{at + "/kubernetes/version": "no way back to a lower version"}},
		"without kubernetes":              {lifecycletest.WithMembers(nil).AdditionalParams, map[string]string{at: "lacks kubernetes"}},
		"without cluster_members":         {lifecycletest.Spec(nil).AdditionalParams, map[string]string{at: "lacks kubernetes"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, api.InstanceSpec{AdditionalParams: c.params})
			w.WantRefused(err, api.ProblemInvalid)
			var p *api.Problem
			errors.As(err, &p)
			got := map[string]string{}
			for _, f := range p.InvalidParams {
				got[f.Pointer] = f.Message
			}
			for pointer, says := range c.want {
				if !strings.Contains(got[pointer], says) {
					t.Errorf("%s: %q, want it to say %q", pointer, got[pointer], says)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("faults %v", got)
			}
		})
	}
	if got := w.Instance().DesiredVersion; got != version {
		t.Errorf("version %d is in force, was %d", got, version)
	}
	members := lifecycletest.Joined(t, lifecycletest.FullTopology())
	_, _, err := members.Lifecycle.Instances.PutInstance(members.Ctx, lifecycletest.InstanceID, lifecycletest.WithKubernetes(nil))
	members.WantRefused(err, api.ProblemInvalid, at+"/kubernetes", "is new, and the cluster is there already")
}

// Half-way, what has been told counts: there is no way back, and none over a version that a member
// lacks. Before anyone is told, and without a cluster, there is.
func TestTheVersionsThatMayFollow(t *testing.T) {
	put := func(w *lifecycletest.World, version string) string {
		_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, lifecycletest.WithVersion(nil, version))
		if err != nil {
			w.WantRefused(err, api.ProblemInvalid, "/kubernetes/version")
			return "refused"
		}
		return "taken"
	}
	tried := func(w *lifecycletest.World, versions ...string) (results []string) {
		for _, v := range versions {
			results = append(results, v+" "+put(w, v))
		}
		return results
	}
	w := lifecycletest.Made(t, lifecycletest.ClusterOf(lifecycletest.MasterServer, lifecycletest.WorkerServer))
	if diff := cmp.Diff([]string{"1.35.4 taken", "1.36.0 refused", "1.34.4 taken", "1.35.4 taken"}, tried(w, "1.35.4", "1.36.0", "1.34.4", "1.35.4")); diff != "" {
		t.Errorf("before anyone is told:\n%s", diff)
	}
	w.Converge(lifecycletest.MasterServer)
	if got := w.Versions(lifecycletest.MasterServer, lifecycletest.WorkerServer); got != "1.35.4 1.34.4" {
		t.Fatalf("told %s", got)
	}
	if diff := cmp.Diff([]string{"1.34.4 refused", "1.35.3 refused", "1.36.0 refused", "1.35.5 taken", "1.35.4 taken"}, tried(w, "1.34.4", "1.35.3", "1.36.0", "1.35.5", "1.35.4")); diff != "" {
		t.Errorf("half-way:\n%s", diff)
	}
	none := lifecycletest.New(t)
	none.Put(lifecycletest.WithKubernetes(lifecycletest.FullTopology()))
	if diff := cmp.Diff([]string{"1.36.0 taken", "1.33.0 taken"}, tried(none, "1.36.0", "1.33.0")); diff != "" {
		t.Errorf("without a cluster:\n%s", diff)
	}
}

// The NFS server's clients know it by its first volume, which has their record: no PUT makes another one the first while
// PersistentVolumes are kept.
func TestTheFirstVolumeStaysTheFirst(t *testing.T) {
	const volume, at = `{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}`, "/additionalParams/k8s_cluster_installation_param/storage_server/cinder_volume_setup_params"
	earlier := volume + `, {"volume_resource_id": "other", "mount_to": "/a"}`
	replaced, keeping := strings.Replace(volume, "storage_server_volume", "other", 1), string(lifecycletest.KeepingParameters())
	for name, c := range map[string]struct {
		volumes string
		// mended is what is edited besides.
		mended []string
		// refused is where a fault is, "" if the PUT is taken, says what to do.
		refused, says string
	}{
		"one that comes before it":                 {earlier, nil, at + "/1/mount_to", "give each other volume a later mount_to"},
		"one that takes its place":                 {replaced, nil, at, `keep the volume "storage_server_volume" in the list`},
		"one that comes after it":                  {`{"volume_resource_id": "other", "mount_to": "/z"}, ` + volume, nil, "", ""},
		"its own mount point is another":           {strings.Replace(volume, "/volume", "/data", 1), []string{"/volume/nfs", "/data/nfs"}, "", ""},
		"one that comes before it, and withdrawal": {earlier, []string{`"keep"`, `"withdraw"`}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := lifecycletest.Keeping(t)
			put := func() error {
				params := strings.Replace(keeping, volume, c.volumes, 1)
				_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID,
					api.InstanceSpec{AdditionalParams: json.RawMessage(strings.NewReplacer(c.mended...).Replace(params))})
				return err
			}
			var err error
			if c.refused == "" {
				w.Must(put())
			} else if w.Writes(func() { err = put() }) {
				t.Error("a PUT that is refused changed something")
			} else {
				w.WantRefused(err, api.ProblemInvalid, c.refused+": ", `that stays "storage_server_volume"`, c.says)
			}
			w.Post(lifecycletest.Request(api.Terminate, api.PhaseEnd))
			w.Must(put()) // nobody serves
		})
	}
}

// Before the cluster is there, no client relies on the first volume, and no heal could move it.
func TestTheFirstVolumeMayChangeBeforeThereIsACluster(t *testing.T) {
	spec := api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: lifecycletest.FullTopology()}
	w := lifecycletest.New(t)
	w.Put(spec)
	if w.Document(lifecycletest.StorageServer).Storage == nil {
		t.Fatal("the storage server is not told of its volume")
	}
	spec.AdditionalParams = json.RawMessage(strings.Replace(string(spec.AdditionalParams), "storage_server_volume", "other", 1))
	w.Put(spec)
}

// Others may have made PersistentVolumes of their own, once the cluster is there.
func TestTheFirstVolumeStaysTheFirstForOthers(t *testing.T) {
	without := func(params []byte) json.RawMessage {
		before, after, _ := strings.Cut(string(params), `"pv_registration_params"`)
		_, after, _ = strings.Cut(after, "], ")
		return json.RawMessage(before + after)
	}
	w := lifecycletest.New(t)
	spec := api.InstanceSpec{AdditionalParams: without(lifecycletest.KeepingParameters()), Topology: lifecycletest.FullTopology()}
	w.Put(spec)
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
	w.Converge(lifecycletest.StorageServer, lifecycletest.MasterServer, lifecycletest.WorkerServer)
	w.WantState(op, api.Completed)
	spec.AdditionalParams = json.RawMessage(strings.Replace(string(spec.AdditionalParams), "storage_server_volume", "other", 1))
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, spec)
	w.WantRefused(err, api.ProblemInvalid, `that stays "storage_server_volume"`)
}
