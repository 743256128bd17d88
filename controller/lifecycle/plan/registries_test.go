package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const ca = "Files/registries/ca.crt"

// connected is the specification's cluster with its two registries, word for word,
// a master and a worker, instantiated.
func connected(t *testing.T) *lifecycletest.World {
	t.Helper()
	w := lifecycletest.New(t)
	w.Clock.Set(time.Now()) // certificates are made now
	i := w.Put(w.Verbatim("registry-connections.json"))
	if !slices.Equal(i.MissingFiles, []string{lifecycletest.ScriptFile, ca}) {
		t.Errorf("missing files %v, want the script and the CA", i.MissingFiles)
	}
	w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
	w.Upload(ca, string(testca.Root(t, "first").PEM()))
	end := lifecycletest.Request(api.Instantiate, api.PhaseEnd)
	end.Topology = cluster(lifecycletest.WorkerServer)
	op := w.Post(end)
	w.Converge(lifecycletest.MasterServer, lifecycletest.WorkerServer)
	if got := w.Operation(op.ID); got.State != api.Completed || len(got.Warnings) > 0 {
		t.Fatalf("INSTANTIATE END is %+v, want COMPLETED without warnings", got)
	}
	return w
}

// cluster has a master and these workers.
func cluster(workers ...string) *api.Topology {
	t := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.MasterServer, "master"))
	t.Volumes = nil
	for _, id := range workers {
		t.Servers = append(t.Servers, lifecycletest.Server(id, "worker"))
	}
	return t
}

func sha256Of(w *lifecycletest.World, path string) string {
	w.Helper()
	for _, f := range w.Instance().Files {
		if f.Path == path {
			return f.Sha256
		}
	}
	w.Fatalf("there is no file %s", path)
	return ""
}

func TestTheSpecificationsRegistriesReachMastersAndWorkers(t *testing.T) {
	w := connected(t)
	size := w.Instance().Files[slices.IndexFunc(w.Instance().Files, func(f api.PackageFile) bool { return f.Path == ca })].SizeBytes
	want := []api.RegistryConnection{
		{Server: "192.168.0.10:5000", Scheme: api.RegistryHTTP},
		{
			Server: "registry.example.com", Scheme: api.RegistryHTTPS, Username: "user01", Password: "user01",
			CACertificate: &api.FileReference{Sha256: sha256Of(w, ca), SizeBytes: size},
			HostsEntry:    &api.HostsEntry{Address: "192.168.0.20", Names: []string{"registry.example.com"}},
		},
	}
	added := lifecycletest.UUID(3, 2)
	op := w.Post(lifecycletest.Scale(api.ScaleOut, api.PhaseEnd, cluster(lifecycletest.WorkerServer, added)))
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer, added} {
		if diff := cmp.Diff(want, w.Document(id).Registries); diff != "" {
			t.Errorf("registries of %s (-want +got):\n%s", id, diff)
		}
		if !w.Lifecycle.Nodes.NodeReads(w.Ctx, id, sha256Of(w, ca)) || w.Lifecycle.Nodes.NodeReads(w.Ctx, id, sha256Of(w, lifecycletest.ScriptFile)) {
			t.Errorf("%s reads the CA, and not the script", id)
		}
		if g := w.Document(id).Generation; g != 1 {
			t.Errorf("%s is in generation %d; a worker that comes changes no other document", id, g)
		}
	}
	w.Converge(added)
	if got := w.Operation(op.ID); got.State != api.Completed || len(got.Targets) != 1 {
		t.Errorf("SCALE_OUT END is %+v, want COMPLETED with the new worker", got)
	}
}

func TestAnotherCAReachesEveryNode(t *testing.T) {
	w := connected(t)
	old := sha256Of(w, ca)
	w.Upload(ca, string(testca.Root(t, "second").PEM()))
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		c := w.Document(id)
		if c.Generation != 2 || c.Registries[1].CACertificate.Sha256 != sha256Of(w, ca) {
			t.Errorf("document of %s %+v, want the new CA in generation 2", id, c)
		}
		if w.Lifecycle.Nodes.NodeReads(w.Ctx, id, old) || w.Node(id).Ready {
			t.Errorf("%s may read the old CA, or is ready without the new one", id)
		}
	}
	w.Must(w.Files.Collect(w.Ctx))
	if _, err := w.Blobs.Size(old); err == nil {
		t.Error("the old CA is still on disk")
	}
	w.Upload(ca, "no certificate")
	if n := w.Node(lifecycletest.MasterServer); w.Document(lifecycletest.MasterServer).Registries != nil || len(n.Withheld) != 1 || n.Withheld[0].Reason != api.ReasonFileMissing {
		t.Errorf("withheld %+v, want the registries for the faulty CA", n.Withheld)
	}
}

// The password is in the documents of the nodes that log in, and in nothing that people see.
func TestAnotherPasswordReachesEveryNodeAndNothingElse(t *testing.T) {
	const password = "s3cr3t pässwörd"
	w := connected(t)
	var log bytes.Buffer
	everything := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.Lifecycle.Instances.Log, w.Lifecycle.Nodes.Log, w.Lifecycle.Reconciler.Log, w.Lifecycle.Discovery.Log = everything, everything, everything, everything
	w.Lifecycle.Reconciler.Completion.Log = everything
	spec := w.Verbatim("registry-connections.json")
	spec.AdditionalParams = bytes.Replace(spec.AdditionalParams, []byte(`"password": "user01"`), []byte(`"password": "`+password+`"`), 1)
	w.Put(spec)
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		if c := w.Document(id); c.Generation != 2 || c.Registries[1].Password != password {
			t.Errorf("document of %s is %d, want the new password in generation 2", id, c.Generation)
		}
	}
	w.Post(lifecycletest.Heal(api.PhaseEnd, cluster(lifecycletest.UUID(3, 3)), lifecycletest.WorkerServer))
	sick := w.Status(lifecycletest.MasterServer)
	sick.Conditions[0].Status = api.ConditionFalse
	w.Report(lifecycletest.MasterServer, sick)
	spec.AdditionalParams = bytes.Replace(spec.AdditionalParams, []byte(`"username": "user01"`), []byte(`"username": 7`), 1)
	_, _, refused := w.Lifecycle.Instances.PutInstance(w.Ctx, lifecycletest.InstanceID, spec)
	nodes, err := w.Lifecycle.Nodes.ListNodes(w.Ctx, "", true)
	w.Must(err)
	operations, err := w.Lifecycle.Operations.ListOperations(w.Ctx, "")
	w.Must(err)
	for what, seen := range map[string]any{"instance": w.Instance(), "nodes": nodes, "operations": operations, "error": fmt.Sprint(refused), "log": log.String()} {
		text, err := json.Marshal(seen)
		w.Must(err)
		if strings.Contains(string(text), password) || len(text) < 20 {
			t.Errorf("the password is in the %s, or nothing is: %s", what, text)
		}
	}
}

func TestARegistryThatLeavesTheParametersLeavesTheDocuments(t *testing.T) {
	w := connected(t)
	spec := w.Verbatim("registry-connections.json")
	var body map[string]map[string]any
	var rest map[string]json.RawMessage
	w.Must(json.Unmarshal(spec.AdditionalParams, &rest))
	w.Must(json.Unmarshal([]byte(`{"c":`+string(rest["k8s_cluster_installation_param"])+`}`), &body))
	delete(body["c"], "private_registry_connection_info")
	text, err := json.Marshal(map[string]any{"k8s_cluster_installation_param": body["c"]})
	w.Must(err)
	spec.AdditionalParams = text
	w.Put(spec)
	for _, id := range []string{lifecycletest.MasterServer, lifecycletest.WorkerServer} {
		if c := w.Document(id); c.Registries == nil || len(c.Registries) > 0 || c.Generation != 2 {
			t.Errorf("document of %s %+v, want an empty list", id, c)
		}
		if w.Lifecycle.Nodes.NodeReads(w.Ctx, id, sha256Of(w, ca)) {
			t.Errorf("%s may read a CA that its document does not name", id)
		}
	}
}
