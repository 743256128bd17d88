package cluster

import (
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
)

func (w *world) kubectl(args ...string) string {
	w.T.Helper()
	return kubetest.Kubectl(w.T, w.kube, args...)
}

func (w *world) volumes() map[string]kubetest.Volume {
	w.T.Helper()
	return kubetest.Volumes(w.T, w.kube)
}

// none asserts that there is no PersistentVolume.
func (w *world) none() {
	w.T.Helper()
	if all := w.volumes(); len(all) > 0 {
		w.T.Errorf("there are %v", all)
	}
}

// claim is where a case's claim is.
const claimNamespace, claimName = "shop", "orders"

// claims makes a claim and returns the name of the volume that is bound to it.
func (w *world) claims() string {
	w.T.Helper()
	err := w.kube.Apply(w.T.Context(), fmt.Sprintf(`
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
		w.T.Fatal(err)
	}
	w.kubectl("wait", "--namespace", claimNamespace, "--for=jsonpath={.status.phase}=Bound", "pvc/"+claimName, "--timeout=120s")
	name := w.kubectl("get", "pvc", claimName, "--namespace", claimNamespace, "-o", "jsonpath={.spec.volumeName}")
	w.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pv/"+name, "--timeout=120s")
	return name
}

// releases deletes the claim.
func (w *world) releases(volume string) {
	w.T.Helper()
	w.kubectl("delete", "pvc", claimName, "--namespace", claimNamespace, "--timeout=60s")
	w.kubectl("wait", "--for=jsonpath={.status.phase}=Released", "pv/"+volume, "--timeout=120s")
}

// untouched asserts that the volumes are the same objects as before; with versions also
// that none was written.
func (w *world) untouched(before map[string]kubetest.Volume, versions bool) {
	w.T.Helper()
	after := w.volumes()
	for name, v := range before {
		now := after[name]
		if now.Metadata.UID != v.Metadata.UID || now.Spec.NFS != v.Spec.NFS || versions && now.Metadata.ResourceVersion != v.Metadata.ResourceVersion {
			w.T.Errorf("%s was %+v, is %+v", name, v, now)
		}
	}
	if len(after) != len(before) {
		w.T.Errorf("there were %d volumes, there are %d", len(before), len(after))
	}
}

// seconds is a figure.
func seconds(since time.Time) string { return fmt.Sprintf("%.1f s", time.Since(since).Seconds()) }
