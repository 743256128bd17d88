package kubernetes_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	next         = "1.35.4"
	snapshotFile = state + "/etcd-before-" + next + ".db"
	configMap    = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
	apiserver    = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	// upgradeFails is what kubeadm prints if a component does not come back.
	upgradeFails = "[upgrade/staticpods] Waiting for the kubelet to restart the component\nerror: error execution phase control-plane: couldn't complete the static pod upgrade: timed out waiting for the condition" + stack
)

// configured is the cluster's configuration, for a version.
func (r *rig) configured(of string) {
	r.api.Put(configMap, kubeapitest.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubeapitest.Object{},
		"data": kubeapitest.Object{"ClusterConfiguration": "kind: ClusterConfiguration\nkubernetesVersion: v" + of + "\n"}})
}

func (r *rig) configuredFor() string {
	text, _ := at(r.api.Get(configMap), "data", "ClusterConfiguration").(string)
	_, version, _ := strings.Cut(strings.TrimSpace(text), "kubernetesVersion: v")
	return version
}

// upgraded are the files that kubeadm makes when it upgrades a member. It moves a manifest away
// before it puts the new one there.
func (r *rig) upgraded(run hosttest.KubeadmRun) (all []hosttest.LeftFile) {
	file := func(path, content string, then func()) {
		all = append(all, hosttest.LeftFile{Path: path, FileState: hosttest.FileState{Content: content, Mode: 0o600}, Then: then})
	}
	to := run.Version
	if to == "" {
		to = r.configuredFor()
	}
	if old, ok := r.m.Files[apiserver]; ok {
		file("/etc/kubernetes/tmp/kubeadm-backup-manifests-2026-11-29-03-00-00/kube-apiserver.yaml", old.Content, func() { delete(r.m.Files, apiserver) })
		all[0].Durable = true // it is moved there
		file(apiserver, "v"+to, nil)
	}
	file("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n# "+to+"\n", func() {
		if run.Verb == "upgrade apply" {
			r.configured(to)
		}
	})
	file("/var/lib/kubelet/upgraded", "end", nil) // the end of a run, which leaves no file in truth
	all[len(all)-1].Durable = true
	return all
}

// snapshot is what the master's etcd has, and sends.
func (r *rig) snapshot(database string) {
	sum := sha256.Sum256([]byte(database))
	r.etcd.parts = nil
	left := len(database)
	send := func(blob []byte) {
		part := map[string]any{"header": map[string]any{"raft_term": "2"}, "blob": blob, "version": "3.6.0"}
		if left > 0 { // the gateway leaves out what is 0
			part["remaining_bytes"] = fmt.Sprint(left)
		}
		text, err := json.Marshal(map[string]any{"result": part})
		if err != nil {
			r.Fatal(err)
		}
		r.etcd.parts = append(r.etcd.parts, string(text))
	}
	for blob := range slices.Chunk([]byte(database), 32<<10) {
		left -= len(blob)
		send(blob)
	}
	send(sum[:])
}

// saved is a snapshot of a database as a file.
func saved(database string) string {
	sum := sha256.Sum256([]byte(database))
	return database + string(sum[:])
}

var database = strings.Repeat("etcd", 25<<10)

// older is a member with the programs of archives, which is told the next version.
func older(t *testing.T, role api.Role) *rig {
	r := bare(t, role)
	r.programs(released(t, version), packed(t, "bridge", ownProgram("old")))
	r.told()
	r.becomes(installed, "True Installed")
	r.brings(savedImages(t, "example.com/net:2"))
	r.programs(released(t, next), packed(t, "bridge", ownProgram("new")))
	r.doc.Kubernetes.Version = next
	return r
}

// told makes the machine a member, and its cluster one that can be upgraded.
func (r *rig) told() {
	r.becomes(member, "True Joined")
	r.runs()
	r.configured(version)
	r.m.Files["/sys/fs/cgroup/cgroup.controllers"] = hosttest.FileState{}
	if r.doc.Role == api.RoleMaster {
		r.m.Files[apiserver] = hosttest.FileState{Content: "v" + version, Mode: 0o600}
		r.snapshot(database)
	}
}

// given are the archives again, which the controller still has.
func (r *rig) given() {
	r.brings(savedImages(r.T, "example.com/net:2"))
	r.programs(released(r.T, next), packed(r.T, "bridge", ownProgram("new")))
}

// isUpgraded wants a machine whose upgrade is over.
func (r *rig) isUpgraded() {
	r.Helper()
	report := r.expect(member, "True Joined")
	r.expect(installed, "True Installed", next)
	if report.KubeletVersion != next {
		r.Errorf("it reports kubelet %q", report.KubeletVersion)
	}
	if f, ok := r.m.Files[apiserver]; (ok || r.doc.Role == api.RoleMaster) && f.Content != "v"+next {
		r.Errorf("the API server's manifest is %q", f.Content)
	}
	if got := at(r.api.Get(own), "status", "nodeInfo", "kubeletVersion"); got != "v"+next {
		r.Errorf("kubelet %v runs", got)
	}
	r.idle()
}

// traced are those of the changes that the trace has from a line on.
func (r *rig) traced(from int, changes ...string) (found []string) {
	for _, line := range r.m.Trace[from:] {
		if slices.Contains(changes, line) {
			found = append(found, line)
		}
	}
	return found
}

func TestAMemberIsUpgraded(t *testing.T) {
	replaced := []string{"write /usr/local/bin/kubelet", "write /opt/cni/bin/bridge", "restart kubelet.service"}
	for name, c := range map[string]struct {
		role  api.Role
		first bool // nobody has upgraded the cluster's configuration
		want  []string
	}{
		"the first master": {api.RoleMaster, true, []string{"write /usr/local/bin/kubeadm", "import images", "write " + snapshotFile, "kubeadm upgrade apply"}},
		"another master":   {api.RoleMaster, false, []string{"write /usr/local/bin/kubeadm", "import images", "kubeadm upgrade node"}},
		"a worker":         {api.RoleWorker, false, []string{"write /usr/local/bin/kubeadm", "import images", "kubeadm upgrade node"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := older(t, c.role)
			if !c.first {
				r.configured(next)
			}
			begun := len(r.m.Trace)
			r.becomes(member, "True Joined")
			want := append(c.want, replaced...)
			all := append([]string{"kubeadm upgrade apply", "kubeadm upgrade node", "write " + snapshotFile}, want...)
			if got := r.traced(begun, all...); !slices.Equal(got, want) {
				t.Errorf("it did\n%s\nwant\n%s\ntrace:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), strings.Join(r.m.Trace[begun:], "\n"))
			}
			for _, path := range []string{"kubelet", "kubeadm", "kubectl"} {
				r.hasFile("/usr/local/bin/"+path, "v"+next, 0o755)
			}
			r.hasFile("/opt/cni/bin/bridge", "new", 0o755)
			if c.first {
				r.hasFile(snapshotFile, saved(database), 0o600)
				r.expect(member, "True Joined", "etcd's data of before the upgrade is in "+snapshotFile)
			}
			if run := r.runs()[0]; c.first != slices.Equal(run.Ignored, []string{"CreateJob"}) || c.first && run.Version != next {
				t.Errorf("kubeadm ran as %+v", run)
			}
			for _, ref := range r.doc.Files() {
				if r.files.Has(ref) {
					t.Errorf("the archive %s is kept", ref.Sha256)
				}
			}
			r.isUpgraded()
			r.restart()
			r.idle()
		})
	}
}

// Before whichever change the agent, kubeadm or the machine ends, the next life of the agent
// continues, and the snapshot is of the time before kubeadm began.
func TestAnInterruptedUpgradeIsFinished(t *testing.T) {
	ends := map[string]func(*hosttest.Machine){"agent": func(*hosttest.Machine) {}, "power": (*hosttest.Machine).PowerCut}
	for name, situation := range map[string]func(*testing.T) *rig{
		"the first master": func(t *testing.T) *rig { return older(t, api.RoleMaster) },
		"another master":   func(t *testing.T) *rig { r := older(t, api.RoleMaster); r.configured(next); return r },
	} {
		for end, ended := range ends {
			changes := 0
			for passes := range 4 {
				for n := 1; ; n++ {
					crashed := false
					t.Run(fmt.Sprintf("%s, %s, after %d passes, before change %d", name, end, passes, n), func(t *testing.T) {
						r := situation(t)
						for range passes {
							r.converge()
						}
						if crashed = r.crashing(n); !crashed {
							return
						}
						runs := r.runs()
						_, finished := r.m.Files["/var/lib/kubelet/upgraded"]
						r.snapshot(strings.Repeat("half", 9<<10))
						r.given()
						ended(r.m)
						r.m.Units["containerd.service"].Active = true
						r.restart()
						r.becomes(member, "True Joined")
						r.isUpgraded()
						again := r.runs()
						if len(runs) > 0 && !finished && (len(again) != 1 || again[0].Verb != runs[0].Verb) {
							t.Errorf("kubeadm ran as %q, then as %q", verbs(runs), verbs(again))
						}
						if _, there := r.m.Files[snapshotFile]; there && len(runs) > 0 {
							r.hasFile(snapshotFile, saved(database), 0o600)
						}
						r.hasFile("/usr/local/bin/kubelet", "v"+next, 0o755)
						r.hasFile("/opt/cni/bin/bridge", "new", 0o755)
						r.m.PowerCut()
						r.whole()
					})
					if !crashed {
						changes += n - 1
						break
					}
				}
			}
			if changes < 15 {
				t.Errorf("%s, %s: there are only %d changes", name, end, changes)
			}
		}
	}
}

// What an image or a package manager has brought is the operator's to replace, kubeadm first.
func TestAMemberWithTheProgramsOfItsImageIsUpgraded(t *testing.T) {
	for name, both := range map[string]bool{"kubelet in its turn": false, "kubelet with kubeadm": true} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			r.told()
			r.doc.Kubernetes.Version = next
			r.expect(installed, "False VersionDiffers", "kubeadm is of version 1.34.4; expected 1.35.4: replace kubeadm first, and leave kubelet as it is")
			r.expect(member, "False VersionDiffers", "the condition KubernetesInstalled says why")
			r.idle()
			r.m.Kubernetes.Kubeadm = next
			if both {
				r.m.Kubernetes.Kubelet = next
			}
			r.converge()
			if got := verbs(r.runs()); got != "upgrade apply" {
				t.Errorf("kubeadm ran as %q", got)
			}
			if !both {
				r.expect(installed, "False VersionDiffers", "kubelet is of version 1.34.4; expected 1.35.4: kubeadm has upgraded this member, so replace kubelet now; the agent then restarts it")
				r.expect(member, "False NodeNotReady", "kubelet of Node server-0 is of version v1.34.4; expected v1.35.4")
				r.idle()
				r.m.Kubernetes.Kubelet = next
			}
			begun := len(r.m.Trace)
			r.becomes(member, "True Joined")
			if got := r.traced(begun, "restart kubelet.service"); len(got) != 1 {
				t.Errorf("kubelet was restarted %d times", len(got))
			}
			r.isUpgraded()
		})
	}
}

func TestNothingIsUpgradedWithoutASnapshot(t *testing.T) {
	last := func(r *rig, part string) { r.etcd.parts[len(r.etcd.parts)-1] = part }
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
		words  []string
	}{
		"the disk is full":     {func(r *rig) { r.m.Space = int64(2*len(database)) - 1 }, "False NoSpace", []string{"where 204799 are free"}},
		"it ends too early":    {func(r *rig) { r.etcd.parts = r.etcd.parts[:2] }, "False UpgradeFailed", []string{"was cut off", "nothing was upgraded"}},
		"its sum is missing":   {func(r *rig) { r.etcd.parts = r.etcd.parts[:len(r.etcd.parts)-1] }, "False UpgradeFailed", []string{"its SHA-256, are missing"}},
		"its sum is another":   {func(r *rig) { last(r, `{"result":{"blob":"`+base64.StdEncoding.EncodeToString(make([]byte, 32))+`"}}`) }, "False UpgradeFailed", []string{"is damaged"}},
		"a part is missing":    {func(r *rig) { r.etcd.parts = slices.Delete(r.etcd.parts, 1, 2) }, "False UpgradeFailed", []string{"is damaged"}},
		"etcd gives up":        {func(r *rig) { last(r, `{"error":{"code":14,"message":"etcdserver: stopped"}}`) }, "False UpgradeFailed", []string{"etcdserver: stopped"}},
		"a part has no end":    {func(r *rig) { r.etcd.parts[1] = strings.Repeat("x", 2<<20) }, "False UpgradeFailed", []string{"token too long"}},
		"etcd does not answer": {func(r *rig) { r.etcd.parts = nil }, "False UpgradeFailed", []string{"was cut off"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := older(t, api.RoleMaster)
			c.change(r)
			r.becomes(member, c.want, c.words...)
			if runs := r.runs(); runs != nil || r.configuredFor() != version || r.m.Files[snapshotFile].Content != "" {
				t.Errorf("kubeadm ran as %q", verbs(runs))
			}
			r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)
			r.m.Space = 10 << 20
			r.snapshot(database)
			r.becomes(member, "True Joined")
			r.isUpgraded()
		})
	}
}

func TestAnUpgradeThatKubeadmFails(t *testing.T) {
	for name, c := range map[string]struct {
		said, want string
		words      []string
		anew       bool // the next attempt has a snapshot of its own
	}{
		"an image is missing": {fmt.Sprintf(preflight, "\t[ERROR ImagePull]: failed to pull image registry.k8s.io/kube-apiserver:v1.35.4: not found"), "False ImageUnavailable",
			[]string{"upgrading this member to 1.35.4", "registry.k8s.io/kube-apiserver:v1.35.4"}, true},
		"a skipped minor": {"error: error execution phase preflight: the version argument is invalid due to these fatal errors:\n\n\t- Specified version to upgrade to \"v1.36.0\" is too high; kubeadm can upgrade only 1 minor version at a time\nPlease fix the misalignments highlighted above and try upgrading again" + stack,
			"False UpgradeFailed", []string{"kubeadm can upgrade only 1 minor version at a time"}, true},
		"a component does not come back": {upgradeFails, "False UpgradeFailed", []string{"timed out waiting for the condition", snapshotFile + " has etcd's data of before"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := older(t, api.RoleMaster)
			r.m.Kubernetes.Refuses["upgrade apply"] = c.said
			r.becomes(member, c.want, c.words...)
			r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)
			after := strings.Repeat("half", 9<<10)
			r.snapshot(after)
			delete(r.m.Kubernetes.Refuses, "upgrade apply")
			r.becomes(member, "True Joined")
			want := saved(database)
			if c.anew {
				want = saved(after)
			}
			r.hasFile(snapshotFile, want, 0o600)
			r.isUpgraded()
		})
	}
}

func TestAMemberIsNeverMadeOlder(t *testing.T) {
	for name, c := range map[string]struct {
		change              func(*rig)
		condition, want     string
		words, notInstalled []string
	}{
		"its document has an earlier version": {func(r *rig) { r.doc.Kubernetes.Version = "1.34.3"; r.programs(released(r.T, "1.34.3")) }, installed, "False VersionDiffers",
			[]string{"this member is of version 1.34.4, and no member is made older"}, []string{"1.34.3"}},
		"its cluster has a later version":     {func(r *rig) { r.configured("1.36.0") }, member, "False UpgradeFailed", []string{"the cluster is of version v1.36.0", "expected at most 1.35.4"}, nil},
		"its cluster's version is no version": {func(r *rig) { r.configured("") }, member, "False UpgradeFailed", []string{"in the ConfigMap kube-system/kubeadm-config"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := older(t, api.RoleMaster)
			c.change(r)
			r.becomes(c.condition, c.want, c.words...)
			if runs := r.runs(); runs != nil {
				t.Errorf("kubeadm ran as %q", verbs(runs))
			}
			r.hasFile("/usr/local/bin/kubelet", "v"+version, 0o755)
			for _, other := range c.notInstalled {
				if strings.Contains(r.m.Files["/usr/local/bin/kubeadm"].Content, other) {
					t.Errorf("kubeadm is %q", other)
				}
			}
			r.idle()
		})
	}
}

// The master that holds the shared address does not keep it while kubeadm restarts its API server.
func TestTheSharedAddressMovesBeforeAnUpgrade(t *testing.T) {
	const moved = "restart " + keepalived
	for name, c := range map[string]struct {
		change func(*rig)
		want   []string
	}{
		"of the first master":   {func(*rig) {}, []string{moved, "kubeadm upgrade apply"}},
		"of another master":     {func(r *rig) { r.configured(next) }, []string{moved, "kubeadm upgrade node"}},
		"another one holds it":  {func(r *rig) { r.m.Keepalived.Elsewhere = true; r.m.Reboot() }, []string{"kubeadm upgrade apply"}},
		"there is no other one": {func(r *rig) { r.doc.Cluster.Masters = r.doc.Cluster.Masters[1:] }, []string{"kubeadm upgrade apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(first(t))
			r.settle()
			r.told()
			c.change(r)
			r.m.Units["containerd.service"].Active = true
			r.settle()
			r.m.Kubernetes.KubernetesVersions = host.KubernetesVersions{Kubeadm: next, Kubelet: next}
			r.doc.Kubernetes.Version = next
			r.m.Trace = nil
			r.converge()
			if got := r.did(moved, "kubeadm upgrade"); !slices.Equal(got, c.want) {
				t.Errorf("it did %q, want %q", got, c.want)
			}
			r.becomes(member, "True Joined")
			r.takesPart(true)
		})
	}
}

// A snapshot has all Secrets, and may have some GiB. The upgrade before may have begun on another
// master.
func TestSnapshotsOfEarlierUpgradesAreRemoved(t *testing.T) {
	for name, first := range map[string]bool{"the first master": true, "another master": false} {
		t.Run(name, func(t *testing.T) {
			r := older(t, api.RoleMaster)
			if !first {
				r.configured(next)
			}
			kept := []string{state + "/etcd-before-1.36.0.db", state + "/etcd-before-mine.db", state + "/inventory.json"}
			gone := []string{state + "/etcd-before-1.34.4.db", state + "/etcd-before-1.33.10.db"}
			for _, path := range slices.Concat(kept[:2], gone) {
				r.m.Files[path] = hosttest.FileState{Content: "snapshot", Mode: 0o600}
			}
			r.m.Kubernetes.Refuses["upgrade apply"], r.m.Kubernetes.Refuses["upgrade node"] = upgradeFails, upgradeFails
			r.becomes(member, "False UpgradeFailed")
			r.hasFile(gone[0], "snapshot", 0o600)
			clear(r.m.Kubernetes.Refuses)
			r.becomes(member, "True Joined")
			if first {
				r.hasFile(snapshotFile, saved(database), 0o600)
			}
			for _, path := range gone {
				if _, there := r.m.Files[path]; there {
					t.Errorf("%s is kept", path)
				}
			}
			for _, path := range kept {
				if _, there := r.m.Files[path]; !there {
					t.Errorf("%s is gone", path)
				}
			}
			r.isUpgraded()
		})
	}
}

// From 1.35 on kubeadm's check of the machine fails with cgroup v1, however kubelet is configured.
func TestCgroupsOfAMember(t *testing.T) {
	for name, c := range map[string]struct {
		config, condition, want, ran string
		ignored                      []string
	}{
		"kubelet tolerates them": {"failCgroupV1: false\n", member, "True Joined", "upgrade node", []string{"SystemVerification"}},
		"kubelet refuses them":   {"kind: KubeletConfiguration\n", installed, "False CgroupUnsupported", "", nil},
	} {
		for _, role := range []api.Role{api.RoleMaster, api.RoleWorker} {
			t.Run(name+", "+string(role), func(t *testing.T) {
				r := older(t, role)
				r.configured(next)
				delete(r.m.Files, "/sys/fs/cgroup/cgroup.controllers")
				leaves := r.m.Kubernetes.Leaves
				r.m.Kubernetes.Leaves = func(run hosttest.KubeadmRun) []hosttest.LeftFile {
					return slices.DeleteFunc(leaves(run), func(f hosttest.LeftFile) bool { return f.Path == "/var/lib/kubelet/config.yaml" })
				}
				r.m.Files["/var/lib/kubelet/config.yaml"] = hosttest.FileState{Content: c.config, Mode: 0o600}
				r.becomes(c.condition, c.want)
				runs := r.runs()
				if verbs(runs) != c.ran || len(runs) > 0 && !slices.Equal(runs[0].Ignored, c.ignored) {
					t.Errorf("kubeadm ran as %+v", runs)
				}
			})
		}
	}
}

// A server that is joining when the upgrade begins joins with what it has, and is upgraded then.
func TestAMachineThatWasJoiningIsUpgradedAfterThat(t *testing.T) {
	r := bare(t, api.RoleWorker)
	r.configured(next)
	r.m.Files["/sys/fs/cgroup/cgroup.controllers"] = hosttest.FileState{}
	r.programs(released(t, version))
	r.m.Kubernetes.Refuses["join"] = "error: error execution phase kubelet-start: timed out" + stack
	r.becomes(member, "False JoinFailed")
	r.runs()
	delete(r.m.Kubernetes.Refuses, "join")
	r.programs(released(t, next))
	r.doc.Kubernetes.Version = next
	r.becomes(member, "True Joined")
	if got := verbs(r.runs()); got != "join upgrade node" {
		t.Errorf("kubeadm ran as %q", got)
	}
	r.isUpgraded()
}

// An upgrade changes the cluster: nothing begins for a document of long ago.
func TestNothingIsUpgradedForADocumentFromDisk(t *testing.T) {
	r := older(t, api.RoleMaster)
	for range 4 {
		r.engine.Converge(t.Context(), r.doc, converge.Options{})
	}
	if runs := r.runs(); runs != nil {
		t.Errorf("kubeadm ran as %q", verbs(runs))
	}
}

// A program that is not the agent's is not replaced, although others of the package are.
func TestAKubeletThatIsNotTheAgentsIsLeft(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.m.Kubernetes.KubernetesVersions = host.KubernetesVersions{Kubelet: version}
	r.m.Files["/usr/bin/kubelet"] = hosttest.FileState{Content: "theirs", Mode: 0o755}
	r.programs(released(t, version))
	r.told()
	r.configured(next)
	r.programs(released(t, next))
	r.doc.Kubernetes.Version = next
	r.becomes(installed, "False VersionDiffers", "replace kubelet now")
	r.hasFile("/usr/local/bin/kubeadm", "v"+next, 0o755)
	r.m.Kubernetes.Kubelet = next
	r.becomes(member, "True Joined")
	r.isUpgraded()
}
