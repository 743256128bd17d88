package kubernetes

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The archives of a release in the package, as Kubernetes, the CNI plugins and containerd have them.
// The one apart is of images that a test wants to be missing for a time.
const (
	nodeArchive   = "kubernetes-node-linux-amd64.tar.gz"
	pluginArchive = "cni-plugins-linux-amd64.tgz"
	imageArchive  = "images.tar"
	apartArchive  = "images-apart.tar"
)

// TestBareMachines has machines with containerd alone: no program and no image of Kubernetes, no
// CNI plugin, and no registry that has them. The disk of one is too small for the images at first,
// and another's containerd starts Pods with an image that no archive has.
func TestBareMachines(t *testing.T) {
	present := presentRelease(t)
	w := newCluster(t)
	r := results.Begin(t, suite, "bare-machines", "machines without programs and images of Kubernetes get them from the package and become a cluster; a full disk and another pause image are named, and what is mended is taken up; a second pass does nothing")
	w.packed(r, present)
	w.wants(present, imageArchive)
	w.draw(1, 2)
	w.bare()
	full, other := w.Of(workerPoint)[0], w.Of(workerPoint)[1]
	full.Run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/var/lib/containerd")
	const pause, another = "pause:3.10.1", "pause:3.8"
	set := func(from, to string) {
		other.Run("sed", "-i", "s|"+from+"|"+to+"|", "/etc/containerd/config.toml")
		other.Run("systemctl", "restart", "containerd")
	}
	set(pause, another)
	began := time.Now()
	ended := w.Begin(api.Instantiate)
	if said := full.Says(api.ConditionKubernetesInstalled, api.ReasonNoSpace); !strings.Contains(said, "make room where containerd keeps images") {
		t.Errorf("a full disk: %s", said)
	}
	if said := other.Says(api.ConditionKubernetesInstalled, api.ReasonImageUnavailable); !strings.Contains(said, "starts each Pod with the image registry.k8s.io/"+another) {
		t.Errorf("another pause image: %s", said)
	}
	full.Run("systemctl", "stop", "containerd") // the agent starts it
	full.Run("umount", "/var/lib/containerd")
	set(another, pause)
	w.Completes(ended)
	r.Figure("END posted to completed", "%.1f s", time.Since(began).Seconds())
	w.answers()
	w.sound()
	for _, m := range w.Of(workerPoint) {
		m.SecondPass()
		if left := m.Run("find", "/var/lib/nodehitch/agent/files", "-size", "+1M"); left != "" {
			t.Errorf("%s keeps %s", m.Name(), left)
		}
	}
}

// TestBareMachinesWhoseAgentsAreKilled ends each agent at the begin and the end of each action.
func TestBareMachinesWhoseAgentsAreKilled(t *testing.T) {
	results.LongOnly(t)
	present := presentRelease(t)
	w := newCluster(t)
	r := results.Begin(t, suite, "bare-machines-killed", "machines with containerd alone become a cluster, with each agent killed at the begin and the end of each action")
	w.Kills.Agents = true
	w.packed(r, present)
	w.wants(present, imageArchive)
	w.draw(1, 2)
	w.bare()
	began := time.Now()
	w.Operate(api.Instantiate)
	r.Figure("END posted to completed", "%.1f s", time.Since(began).Seconds())
	w.answers()
	w.sound()
	w.KillsAreOver(r, "agents killed", 10)
}

// TestNextMinor makes a cluster of the next minor version than the other machines of the suite have.
func TestNextMinor(t *testing.T) {
	results.LongOnly(t)
	next := kubetest.Release(t, kube.NextMinor)
	w := newCluster(t)
	r := results.Begin(t, suite, "next-minor", "a master and a worker without programs and images become a cluster of the next minor version; a second pass does nothing")
	w.write("Files/kubeadm.yaml", kube.ProxyConfiguration+cgroupV1)
	w.packed(r, next)
	w.wants(next, imageArchive)
	w.draw(1, 1)
	w.bare()
	began := time.Now()
	w.Operate(api.Instantiate)
	r.Figure("END posted to completed, "+next.Version, "%.1f s", time.Since(began).Seconds())
	w.answers()
	w.sound()
	for _, n := range w.nodes() {
		if n.Version != next.Version {
			t.Errorf("there is %+v, want %s", n, next.Version)
		}
	}
	w.secondPasses()
}

// presentRelease is the release that the other machines of the suite have.
func presentRelease(t *testing.T) *kube.Release {
	t.Helper()
	version, err := kube.Version()
	if err != nil {
		t.Fatal(err)
	}
	return kubetest.Release(t, version)
}

// bare boots the machines of the stack with containerd alone: without the unit of kubelet
// that a machine of the lab has, and with a containerd that looks for plugins where none are.
func (w *cluster) bare() {
	w.T.Helper()
	w.kubelet = &lab.Kubelet{}
	w.ask()
	w.boot(w.Topology.Servers...)
	for _, m := range w.Up() {
		const unit = "/etc/systemd/system/kubelet.service"
		m.Run("rm", unit, unit+".d/10-kubeadm.conf", "/etc/systemd/system/multi-user.target.wants/kubelet.service")
		m.Run("sed", "-i", "s:/usr/lib/cni:/opt/cni/bin:", "/etc/containerd/config.toml")
		m.Run("systemctl", "daemon-reload")
		m.Run("systemctl", "stop", "containerd") // the agent starts it
	}
}

// packed puts a release and the images of tests into the package, in a folder for the version. The
// images of the programs apart get an archive of their own. It needs a machine before bare.
func (w *cluster) packed(r *results.Case, release *kube.Release, apart ...string) {
	w.T.Helper()
	donor, err := w.Lab.Nspawn(w.T.Context(), lab.Spec{Name: "donor", Kubelet: w.kubelet})
	if err != nil {
		w.T.Fatal(err)
	}
	names, err := release.ImportImages(w.T.Context(), donor)
	if err != nil {
		w.T.Fatal(err)
	}
	images := map[string][]string{}
	for _, name := range names {
		file := imageArchive
		if program, _, _ := strings.Cut(path.Base(name), ":"); slices.Contains(apart, program) {
			file = apartArchive
		}
		images[file] = append(images[file], name)
	}
	for file, names := range images {
		archive, err := kube.ExportImages(w.T.Context(), donor, names)
		if err != nil {
			w.T.Fatal(err)
		}
		w.write(inPackage(release, file), string(archive))
		r.Figure(release.Version+" "+file, "%d MB", len(archive)>>20)
	}
	plugins := map[string][]byte{}
	for _, plugin := range []string{"ptp", "host-local", "loopback", "portmap"} {
		plugins["./"+plugin], err = donor.Pull(w.T.Context(), path.Join("/usr/lib/cni", plugin))
		if err != nil {
			w.T.Fatal(err)
		}
	}
	inFolder := func(file string) string { return filepath.Join(w.packageDir, inPackage(release, file)) }
	if err := errors.Join(release.WriteNodeArchive(inFolder(nodeArchive)), kube.WriteArchive(inFolder(pluginArchive), plugins)); err != nil {
		w.T.Fatal(err)
	}
	if err := donor.Destroy(); err != nil {
		w.T.Fatal(err)
	}
}

func inPackage(release *kube.Release, file string) string {
	return path.Join("Files", release.Version, file)
}

// wants has the request name a release and its archives of images.
func (w *cluster) wants(release *kube.Release, images ...string) {
	made := w.request.params()["kubernetes"].(map[string]any)
	made["version"] = strings.TrimPrefix(release.Version, "v")
	made["program_archive_paths"] = []string{inPackage(release, nodeArchive), inPackage(release, pluginArchive)}
	var paths []string
	for _, file := range images {
		paths = append(paths, inPackage(release, file))
	}
	made["image_archive_paths"] = paths
}
