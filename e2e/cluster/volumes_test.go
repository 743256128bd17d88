package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// volume is a PersistentVolume as the cluster has it.
type volume struct {
	Metadata struct{ Name, UID, ResourceVersion string }
	Spec     struct {
		NFS      struct{ Server, Path string }
		ClaimRef *struct{ Namespace, Name string }
	}
	Status struct{ Phase string }
}

func (v volume) String() string {
	return fmt.Sprintf("%s %s %s:%s", v.Metadata.Name, v.Status.Phase, v.Spec.NFS.Server, v.Spec.NFS.Path)
}

// volumeNames are those of the package's manifests; what each exports is its number.
var volumeNames = []string{"nfs-pv1", "nfs-pv2", "nfs-pv3"}

func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.kube.Kubectl(w.t.Context(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// volumes are all PersistentVolumes by name.
func (w *world) volumes() map[string]volume {
	w.t.Helper()
	var list struct{ Items []volume }
	if err := json.Unmarshal([]byte(w.kubectl("get", "pv", "-o", "json")), &list); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]volume{}
	for _, v := range list.Items {
		all[v.Metadata.Name] = v
	}
	return all
}

// available waits until the three volumes are Available, and no other is there, each
// at the server's address and its own directory.
func (w *world) available(server netip.Addr) map[string]volume {
	w.t.Helper()
	var all map[string]volume
	w.until("three volumes are Available", func() error {
		all = w.volumes()
		if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, volumeNames) {
			return fmt.Errorf("there are %q", names)
		}
		for i, name := range volumeNames {
			v := all[name]
			want := fmt.Sprintf("%s Available %s:/volume/nfs/pv%d", name, server, i+1)
			if v.String() != want {
				return fmt.Errorf("it is %s; want %s", v, want)
			}
		}
		return nil
	})
	return all
}

// none asserts that there is no PersistentVolume.
func (w *world) none() {
	w.t.Helper()
	if all := w.volumes(); len(all) > 0 {
		w.t.Errorf("there are %v", all)
	}
}

// claim is where a case's claim is.
const claimNamespace, claimName = "shop", "orders"

// claims makes a claim and returns the name of the volume that is bound to it.
func (w *world) claims() string {
	w.t.Helper()
	err := w.kube.Apply(w.t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[2]s, namespace: %[1]s}
spec: {accessModes: [ReadWriteMany], storageClassName: nfs, resources: {requests: {storage: 1Gi}}}
`, claimNamespace, claimName))
	if err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("wait", "--namespace", claimNamespace, "--for=jsonpath={.status.phase}=Bound", "pvc/"+claimName, "--timeout=120s")
	name := w.kubectl("get", "pvc", claimName, "--namespace", claimNamespace, "-o", "jsonpath={.spec.volumeName}")
	w.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pv/"+name, "--timeout=120s")
	return name
}

// releases deletes the claim.
func (w *world) releases(volume string) {
	w.t.Helper()
	w.kubectl("delete", "pvc", claimName, "--namespace", claimNamespace, "--timeout=60s")
	w.kubectl("wait", "--for=jsonpath={.status.phase}=Released", "pv/"+volume, "--timeout=120s")
}

// untouched asserts that the volumes are the same objects as before; with versions also
// that none was written.
func (w *world) untouched(before map[string]volume, versions bool) {
	w.t.Helper()
	after := w.volumes()
	for name, v := range before {
		now := after[name]
		if now.Metadata.UID != v.Metadata.UID || now.Spec.NFS != v.Spec.NFS || versions && now.Metadata.ResourceVersion != v.Metadata.ResourceVersion {
			w.t.Errorf("%s was %+v, is %+v", name, v, now)
		}
	}
	if len(after) != len(before) {
		w.t.Errorf("there were %d volumes, there are %d", len(before), len(after))
	}
}

// seconds is a figure.
func seconds(since time.Time) string { return fmt.Sprintf("%.1f s", time.Since(since).Seconds()) }
