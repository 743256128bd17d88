package stacks

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestTackersDriver takes a VNF through its life by what Tacker's v1 API has alone: a package,
// the spec's request, the UserData class and the hooks of the driver. Only what is Tacker's own
// is stood in for.
func TestTackersDriver(t *testing.T) {
	kubetest.Require(t)
	w := newWorld(t, nil)
	v := w.newTacker().newV1("simple-storage", clusterRequest, clusterPackage)
	d := &driven{v1: v, life: lifeOf(v, 1)}
	w.inOrder(
		step{"tacker-refused", "a wrong body and a missing package file are refused by instantiate_start, before there is a stack, with the text of the guide", d.refused},
		step{"tacker-instantiate", "the package that hitchctl builds, its UserData class and the hooks of the v1 driver bring the spec's request to Ready machines, in a stack of Heat with these parameters and no topology typed", d.life.create},
		step{"tacker-scale-out", "a worker that Heat adds is Ready once scale_end returns", d.scaleOut},
		step{"tacker-never-came", "scale_end fails at its deadline for a worker whose machine does not boot, with the text of the guide; the retry after the boot succeeds", d.neverCame},
		step{"tacker-scale-in", "two workers that scale_start names by their nested stacks leave the stack; they are retired when they fall silent, without an END", d.scaleIn},
		step{"tacker-heal-worker", "heal_start and heal_end of a worker in a nested stack: its successor is Ready, and its own identity is void", d.life.healWorker},
		step{"tacker-in-use", "heal_start of the storage server fails while a claim uses a volume, with the text of the guide, and no PersistentVolume is gone", d.inUse},
		step{"tacker-heal-storage", "heal_start withdraws the PersistentVolumes of the storage server that Tacker names by its VNFC, and after heal_end its successor serves them", d.life.healStorage},
		step{"tacker-heal-entire", "the hooks of a heal of the entire VNF give Tacker the parameters of the new stack, and its machines are Ready", d.life.healEntire},
		step{"tacker-terminate", "the hooks of TERMINATE leave no node and no instance", d.terminate},
	)
}

// driven is a cluster whose VNF the driver takes through its life.
type driven struct {
	*v1
	life *life
}

// refused is about two more VNFs, which never get a stack.
func (d *driven) refused(*results.Case) {
	wrong := d.tacker.newV1("simple-storage", clusterRequest, clusterPackage)
	cluster := wrong.parameters["k8s_cluster_installation_param"].(object)
	cluster["master_node"].(object)["pod_cidr"] = "not an address"
	cluster["storage_server"].(object)["nfs_server_setup_params"].([]any)[1].(object)["export_to"] = "10.10.0.0/99"

	folder := d.T.TempDir()
	if err := errors.Join(os.CopyFS(folder, os.DirFS(clusterPackage)), os.Remove(filepath.Join(folder, "Files/kubernetes/nfs-pv2.yaml"))); err != nil {
		d.T.Fatal(err)
	}
	for _, v := range []*v1{wrong, d.tacker.newV1("simple-storage", clusterRequest, folder)} {
		v.operation("INSTANTIATE")
		d.inGuide(v.raises("instantiate_start", v.request(), nil))
		v.hook("terminate_end", nil, nil) // Tacker's rollback
		v.gone()
	}
}

func scaling(kind string, steps int) object {
	return object{"type": kind, "aspect_id": "worker_instance", "number_of_steps": steps}
}

func (d *driven) scaleOut(*results.Case) {
	d.operation("SCALE")
	d.patch(object{"worker_desired": 3})
	d.hook("scale_end", scaling("SCALE_OUT", 1), object{"scale_out_id_list": memberStacks(d.workers()[:1])})
	d.life.scaled(3)
}

func (d *driven) neverCame(*results.Case) {
	project, err := d.account.ProjectID(d.T.Context())
	if err != nil {
		d.T.Fatal(err)
	}
	d.hyper.leaveOff(project, true)
	d.tacker.configure(15 * time.Second)
	d.operation("SCALE")
	d.patch(object{"worker_desired": 4})
	added := object{"scale_out_id_list": memberStacks(d.workers()[:1])}
	d.inGuide(d.raises("scale_end", scaling("SCALE_OUT", 1), added))
	d.hyper.leaveOff(project, false)
	d.tacker.configure(hookDeadline)
	d.hook("scale_end", scaling("SCALE_OUT", 1), added)
	d.life.scaled(4)
}

// scaleIn updates the group, because the scaling policies that v1 signals do nothing in this
// Heat: see docs/heat-templates.md. Without unhealthy members the oldest leave, which are those
// that v1 names.
func (d *driven) scaleIn(r *results.Case) {
	workers := d.workers()
	leaving := workers[2:]
	d.operation("SCALE")
	d.hook("scale_start", scaling("SCALE_IN", 2), object{"scale_out_id_list": memberStacks(leaving), "scale_name_list": []string{leaving[0].Parent, leaving[1].Parent}})
	records := len(d.operations())
	d.patch(object{"worker_desired": 2})
	began := time.Now()
	d.Until("the workers that have left are retired", func() error {
		for _, s := range leaving {
			if n := d.node(s.PhysicalID); n.State != api.NodeRevoked {
				return fmt.Errorf("%s (%s) is %s", n.Name, n.ID, n.State)
			}
		}
		return nil
	})
	r.Figure("from UPDATE_COMPLETE to the last one's retirement", "%.1f s", time.Since(began).Seconds())
	if servers := d.instance().Topology.Servers; len(servers) != 4 {
		d.T.Errorf("the topology has %+v, want four servers", servers)
	}
	if after := len(d.operations()); after != records {
		d.T.Errorf("there were %d operations, there are %d", records, after)
	}
	d.life.scaled(2)
}

// ours is a claim of a volume that nodehitch has registered.
const ours = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {volumeName: nfs-pv1, accessModes: [ReadWriteMany], storageClassName: nfs, resources: {requests: {storage: 1Gi}}}
`

func (d *driven) inUse(*results.Case) {
	c := d.life.cluster
	if err := c.kube.Apply(d.T.Context(), ours); err != nil {
		d.T.Fatal(err)
	}
	c.kubectl("wait", "pv/nfs-pv1", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
	before := c.kubectl("get", "pv", "-o", "name")
	d.operation("HEAL")
	d.inGuide(d.raises("heal_start", object{"vnfc_instance_id": []string{d.vnfc(d.named("storage_server")[0])}}, nil))
	if after := c.kubectl("get", "pv", "-o", "name"); after != before {
		d.T.Errorf("there were %s, there are %s", before, after)
	}
	c.kubectl("delete", "pvc", "data", "--timeout=60s")
}

func unpack(csar, folder string) error {
	archive, err := zip.OpenReader(csar)
	if err != nil {
		return err
	}
	return errors.Join(os.CopyFS(folder, archive), archive.Close())
}

const guide = "../../docs/tacker.md"

// inGuide asserts that the guide says what to do for this text. In a row of its table … stands for
// one word, such as an id, at its end for the rest.
func (w *world) inGuide(shown string) {
	w.T.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		w.T.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## If an operation fails\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		row, found := strings.CutPrefix(line, "| `")
		quoted, _, closed := strings.Cut(row, "` |")
		begin, open := strings.CutSuffix(quoted, " …")
		pattern := strings.ReplaceAll(regexp.QuoteMeta(begin), "…", `\S+`)
		if open {
			pattern += " .+"
		}
		if found && closed && regexp.MustCompile(`^`+pattern+`$`).MatchString(shown) {
			return
		}
	}
	w.T.Errorf("Tacker shows\n%s\nand no row of %s has this text", shown, guide)
}
