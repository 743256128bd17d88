package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// storagePoint makes a server the storage server, as the request names it.
const storagePoint = "storage_server_CP"

// volumeBytes is the size of the Cinder volume.
const volumeBytes = 128 << 20

// The PersistentVolume spec's own request, and the folder of manifests of the VNF package that
// it speaks of.
const (
	specRequest = "../../shared/params/testdata/persistent-volumes.json"
	manifests   = "../cluster/testdata/package/Files/kubernetes"
)

// TestVolumes has a storage server, and a worker that mounts what it exports: a virtual machine,
// because the host's kernel may have no NFS client for containers.
func TestVolumes(t *testing.T) {
	for _, c := range []struct {
		name, shows string
		specs       bool // the whole cluster of the spec
		kept        bool // the storage server is healed while a Pod writes
	}{
		{"volume", "a Pod writes to a PersistentVolume of the storage server, is deleted and made again, and reads what it has written", false, false},
		{"volume-kept", "a StatefulSet writes to a PersistentVolume while the storage server is destroyed and replaced: its Pod is not restarted, and nothing that it has synced is lost", false, true},
		{"the-specs-cluster", "one request: a storage server, three masters that share an address, three workers; an image of a private registry, and a Pod that finds its PersistentVolume again on another worker", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.specs || c.kept {
				results.LongOnly(t)
			}
			w := newCluster(t, lab.KindVM)
			r := results.Begin(t, suite, c.name, c.shows)
			if c.specs {
				w.drawSpecs()
			} else {
				w.draw(1, 0)
				w.drawVirtual()
				w.drawStorage()
			}
			if c.kept {
				w.request.params()["storage_server"].(map[string]any)["persistent_volumes_at_heal"] = "keep"
			}
			w.ask()
			w.stand(r)
			w.sound()
			w.claims()
			if c.kept {
				w.survives(r)
				return
			}
			w.writes(w.lastWorker())
			if c.specs {
				w.privateRegistry(r)
				w.boot(w.drawVirtual())
				w.Operate(api.Scale, "--type=SCALE_OUT")
				w.sound()
			}
			w.reads(w.lastWorker())
		})
	}
}

// stand instantiates the VNF. The operation begins with the machines' power, as in a stack that
// Heat has just created.
func (w *cluster) stand(r *results.Case) {
	w.T.Helper()
	began := time.Now()
	ended := w.Begin(api.Instantiate)
	w.boot(w.Topology.Servers...)
	w.Completes(ended)
	r.Figure("machines powered on to END", "%.1f s", time.Since(began).Seconds())
}

// drawStorage adds the storage server and its volume to the stack, and what the spec's request
// says of them to the request.
func (w *cluster) drawStorage() {
	w.T.Helper()
	var err error
	if w.volume, err = w.Lab.NewDisk(uuid.NewString(), volumeBytes); err != nil {
		w.T.Fatal(err)
	}
	w.Topology.Volumes = []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: w.volume.VolumeID, SizeBytes: volumeBytes}}
	w.Draw("storage_server", storagePoint, "")
	w.Topology.Servers[len(w.Topology.Servers)-1].VolumeIds = []string{w.volume.VolumeID}
	for _, member := range []string{"storage_server", "pv_registration_params"} {
		w.request.params()[member] = readRequest(w.T, specRequest).params()[member]
	}
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || files == nil {
		w.T.Fatalf("%s: %q, %v", manifests, files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			w.T.Fatal(err)
		}
		w.write("Files/kubernetes/"+filepath.Base(file), string(content))
	}
}

// lastWorker is the worker that came last.
func (w *cluster) lastWorker() *sitetest.Machine {
	all := w.Of(workerPoint)
	return all[len(all)-1]
}

// claims binds a claim to a volume. A Pod that comes before that would wait longer for it.
func (w *cluster) claims() {
	w.T.Helper()
	w.kubectl("wait", "--for=jsonpath={.status.phase}=Available", "--timeout=2m", "pv", "--all")
	w.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: orders}
spec: {accessModes: [ReadWriteMany], storageClassName: nfs, resources: {requests: {storage: 1Gi}}}
`)
	w.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=2m", "pvc/orders")
}

const saved = "orders of a shop"

// writes has a Pod write to the volume: the file is on the storage server.
func (w *cluster) writes(worker *sitetest.Machine) {
	w.T.Helper()
	w.runs(worker, `printf '`+saved+`' >/volume/saved; sync`)
	volume := w.kubectl("get", "pvc", "orders", "-o", "jsonpath={.spec.volumeName}")
	directory := w.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.nfs.path}")
	if got := w.Of(storagePoint)[0].Run("cat", directory+"/saved"); got != saved {
		w.T.Errorf("the storage server has %q in %s", got, directory)
	}
}

// reads has the Pod, made again, read what it has written. It also finds a Service by its name:
// what answers is on other machines.
func (w *cluster) reads(worker *sitetest.Machine) {
	w.T.Helper()
	if got := w.runs(worker, "busybox nslookup kubernetes.default.svc.cluster.local >/dev/null; cat /volume/saved"); got != saved {
		w.T.Errorf("the Pod reads %q, want %q", got, saved)
	}
}

// survives replaces the storage server while a Pod of a StatefulSet writes. What the Pod prints
// is on the storage server's disk.
func (w *cluster) survives(r *results.Case) {
	w.T.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: shop}
spec:
  serviceName: shop
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: shop
        image: %s
        command: [sh, -c, "n=0; while echo $n | busybox dd of=/volume/appended oflag=append conv=notrunc,fsync 2>/dev/null && echo $n; do n=$((n+1)); busybox usleep 100000; done; exit 1"]
        volumeMounts: [{name: orders, mountPath: /volume}]
      volumes:
      - {name: orders, persistentVolumeClaim: {claimName: orders}}
`, kube.TestImage))
	w.kubectl("rollout", "status", "--timeout=5m", "statefulset/shop")
	identity := func() string {
		return w.kubectl("get", "pod", "shop-0", "-o", "jsonpath={.metadata.uid} was restarted {.status.containerStatuses[0].restartCount} times")
	}
	before := identity()
	w.writesMore("before the heal")

	old := w.Of(storagePoint)[0]
	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(old.Server), "--old-server-is-off")
	if err := old.PowerCut(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	began := time.Now()
	w.Destroy(old)
	s := w.Redraw(old.Server, old.Address())
	w.boot(s)
	w.Operate(api.Heal, sitetest.VNFC(s))
	printed := w.writesMore("after the heal")
	r.Figure("destroyed to written again", "%.1f s", time.Since(began).Seconds())
	if after := identity(); after != before || !strings.HasSuffix(after, " was restarted 0 times") {
		w.T.Errorf("the Pod %s; before the heal it %s", after, before)
	}
	volume := w.kubectl("get", "pvc", "orders", "-o", "jsonpath={.spec.volumeName}")
	directory := w.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.nfs.path}")
	onDisk := strings.Fields(w.Of(storagePoint)[0].Run("cat", directory+"/appended"))
	lost := int64(0)
	for i, n := range printed {
		if i >= len(onDisk) || onDisk[i] != n {
			lost += int64(len(n) + 1)
		}
	}
	r.Lost(lost)
	w.sound()
}

// writesMore waits until the Pod has printed more, and returns all of it.
func (w *cluster) writesMore(when string) (printed []string) {
	w.T.Helper()
	logs := func() ([]string, error) {
		out, err := w.tryKubectl("logs", "shop-0")
		return strings.Fields(out), err
	}
	before, err := logs()
	w.Until(when+": the Pod writes", func() error {
		if err == nil {
			printed, err = logs()
		} else {
			before, err = logs()
		}
		if err == nil && len(printed) < len(before)+10 {
			return fmt.Errorf("%d words, before %d: %q", len(printed), len(before), printed)
		}
		return err
	})
	return printed
}

// runs makes the Pod of the claim on a worker, and returns what it has printed.
func (w *cluster) runs(worker *sitetest.Machine, script string) (printed string) {
	w.T.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  nodeName: %s
  restartPolicy: Never
  containers:
  - name: shop
    image: %s
    command: [sh, -euc, %q]
    volumeMounts: [{name: orders, mountPath: /volume}]
  volumes:
  - {name: orders, persistentVolumeClaim: {claimName: orders}}
`, worker.Name(), kube.TestImage, script))
	w.Until("the Pod has ended", func() error {
		switch phase := w.kubectl("get", "pod", "shop", "-o", "jsonpath={.status.phase}"); phase {
		case "Succeeded", "Failed":
			return nil
		default:
			return errors.New(phase + ": " + w.kubectl("get", "events", "--field-selector=involvedObject.name=shop"))
		}
	})
	w.Until("its log is there", func() (err error) { // a busy kubelet takes longer to answer than the API server waits
		printed, err = w.Of(masterPoint)[0].Try("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "logs", "shop")
		return err
	})
	if phase := w.kubectl("get", "pod", "shop", "-o", "jsonpath={.status.phase}"); phase != "Succeeded" {
		w.T.Errorf("the Pod is %s: %s", phase, printed)
	}
	w.kubectl("delete", "pod", "shop")
	return printed
}
