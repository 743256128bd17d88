package kubernetes_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	installed = api.ConditionKubernetesInstalled
	engine    = api.ConditionEngineReady
)

func TestWhatAMachineLacksIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
		words  []string
	}{
		"no kubeadm":         {func(r *rig) { r.m.Kubernetes.Kubeadm = "" }, "False ProgramMissing", []string{"kubeadm", "1.34.4"}},
		"no kubelet":         {func(r *rig) { r.m.Kubernetes.Kubelet = "" }, "False ProgramMissing", []string{"kubelet"}},
		"no unit":            {func(r *rig) { delete(r.m.Units, "kubelet.service") }, "False ProgramMissing", []string{"kubelet.service"}},
		"another kubeadm":    {func(r *rig) { r.m.Kubernetes.Kubeadm = "1.33.2" }, "False VersionDiffers", []string{"kubeadm", "1.33.2", "1.34.4"}},
		"another kubelet":    {func(r *rig) { r.m.Kubernetes.Kubelet = "1.34.3" }, "False VersionDiffers", []string{"kubelet", "1.34.3"}},
		"swap":               {func(r *rig) { r.m.Kernel.Swaps = []string{"/dev/vdb", "/swapfile"} }, "False SwapOn", []string{"/dev/vdb, /swapfile"}},
		"a fixed parameter":  {func(r *rig) { r.m.Kernel.Fixed = []string{"net.ipv4.ip_forward"} }, "False ModuleMissing", []string{"net.ipv4.ip_forward", "read-only"}},
		"cgroup v1":          {func(r *rig) { r.is("1.35.0") }, "False CgroupUnsupported", []string{"cgroup v1", "1.35.0"}},
		"the machine's net":  {func(r *rig) { r.has("eth0", "10.244.7.1") }, "False NetworksOverlap", []string{"pod_cidr", "10.244.7.1", "of this machine"}},
		"Services' net":      {func(r *rig) { r.has("eth0", "10.100.0.1") }, "False NetworksOverlap", []string{"cluster_cidr", "10.100.0.1"}},
		"a master's address": {func(r *rig) { r.doc.Cluster.Masters[0].Addresses = []string{"10.244.7.2"} }, "False NetworksOverlap", []string{"of the master master_node-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			c.change(r)
			r.expect(installed, c.want, c.words...)
			r.expect(member, "False NotJoined", "not prepared")
			if runs := r.runs(); runs != nil {
				t.Errorf("kubeadm ran as %q", verbs(runs))
			}
		})
	}
}

// is makes the machine and its document one of another version.
func (r *rig) is(version string) {
	r.m.Kubernetes.KubernetesVersions = host.KubernetesVersions{Kubeadm: version, Kubelet: version}
	r.doc.Kubernetes.Version = version
}

// has gives an interface an address.
func (r *rig) has(name, address string) {
	r.m.Kernel.Addresses[name] = append(r.m.Kernel.Addresses[name], netip.MustParseAddr(address))
}

func TestWhatIsNoObstacle(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"swap that kubelet tolerates": func(r *rig) {
			r.m.Kernel.Swaps = []string{"/swapfile"}
			r.doc.Kubernetes.KubeadmConfig = r.give("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nfailSwapOn: false\n")
		},
		"swap that the machine's kubelet tolerates": func(r *rig) {
			r.m.Kernel.Swaps = []string{"/swapfile"}
			r.m.Files["/etc/default/kubelet"] = hosttest.FileState{Content: "KUBELET_EXTRA_ARGS=--fail-swap-on=false\n", Mode: 0o644}
		},
		"cgroup v1 that kubelet tolerates": func(r *rig) {
			r.is("1.35.0")
			r.doc.Kubernetes.KubeadmConfig = r.give("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nfailCgroupV1: false\n")
		},
		"cgroup v2": func(r *rig) {
			r.is("1.36.1")
			r.m.Files["/sys/fs/cgroup/cgroup.controllers"] = hosttest.FileState{Content: "cpu memory"}
		},
		"the bridge of the Pods' network": func(r *rig) { r.has("cni0", "10.244.0.1") },
		"no module":                       func(r *rig) { r.m.Kernel.Loadable, r.m.Kernel.BuiltIn = nil, []string{"overlay"} },
	} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			change(r)
			r.expect(member, "True Joined")
			r.idle()
		})
	}
}

// What the cluster's kubelets tolerate is known to a worker when kubeadm has told it.
func TestAWorkerLearnsFromTheClusterWhatItsKubeletTolerates(t *testing.T) {
	for name, c := range map[string]struct{ written, want string }{
		"nothing": {"kind: KubeletConfiguration\n", "False SwapOn"},
		"swap":    {"kind: KubeletConfiguration\nfailSwapOn: false\n", "True Installed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleWorker)
			r.m.Kernel.Swaps = []string{"/swapfile"}
			r.m.Kubernetes.Refuses["join"] = "error: error execution phase kubelet-start: failed while waiting for the kubelet to start" + stack
			r.expect(member, "False JoinFailed")
			r.m.Files["/var/lib/kubelet/config.yaml"] = hosttest.FileState{Content: c.written, Mode: 0o644}
			r.expect(installed, c.want)
		})
	}
}

func TestTheKernelIsSetNowAndAtEachBoot(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.m.Units["kubelet.service"].Enabled = false
	r.expect(installed, "True Installed", "1.34.4")
	want := map[string]string{"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}
	check := func(when string) {
		t.Helper()
		for name, value := range want {
			if got := r.m.Kernel.Settings[name]; got != value {
				t.Errorf("%s: %s is %q", when, name, got)
			}
		}
	}
	check("after a pass")
	if !r.m.Units["kubelet.service"].Enabled {
		t.Error("kubelet does not start at boot")
	}
	r.m.Reboot()
	check("after a reboot")
	r.m.Units["containerd.service"].Active = true
	r.idle()
	r.m.Kernel.Settings["net.ipv4.ip_forward"] = "0" // somebody else
	r.expect(installed, "True Installed")
	check("after another pass")
}

// Without it containerd offers kubelet nothing, and does not say why.
func TestTheModuleForImagesIsTriedUntilItIsThere(t *testing.T) {
	r := second(t, api.RoleWorker)
	loadable := r.m.Kernel.Loadable
	r.m.Kernel.Loadable = map[string]map[string]string{"br_netfilter": loadable["br_netfilter"]}
	for range 2 {
		r.expect(installed, "False ModuleMissing", "overlay", "not found in directory", "restart containerd")
		r.expect(member, "False NotJoined", "not prepared")
	}
	r.m.Kernel.Loadable = loadable
	r.expect(member, "True Joined")
	r.idle()
}

func TestIPv6PodsNeedIPv6Forwarding(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.doc.Cluster.PodCIDR, r.doc.Cluster.ServiceCIDR = "fd00:10::/56", "fd00:20::/112"
	r.expect(installed, "True Installed")
	if s := r.m.Kernel.Settings; s["net.ipv6.conf.default.forwarding"] != "1" || s["net.ipv4.ip_forward"] != "0" {
		t.Errorf("the parameters are %v", s)
	}
}

func TestTheFileOfKubeadmsConfigurationIsMerged(t *testing.T) {
	r := first(t)
	r.doc.Cluster.ExternalAddress = "203.0.113.7"
	r.doc.Kubernetes.KubeadmConfig = r.give(`# comment
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  certSANs: [k8s.example.com]
  extraArgs: [{name: audit-log-maxage, value: "7"}]
networking: {dnsDomain: k8s.local}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 60
---
`)
	r.expect(member, "True Joined")
	runs := r.runs()
	says(t, runs[len(runs)-1].Document("ClusterConfiguration"), map[string]any{
		"apiServer certSANs":  []any{"k8s.example.com", "203.0.113.7"},
		"apiServer extraArgs": []any{object{"name": "audit-log-maxage", "value": "7"}},
		"networking":          object{"dnsDomain": "k8s.local", "podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/12"},
		"kubernetesVersion":   "v1.34.4", "controlPlaneEndpoint": r.address.String(),
	})
	says(t, runs[len(runs)-1].Document("KubeletConfiguration"), map[string]any{"maxPods": 60.0})
	r.idle()
}

func TestAFileThatIsNotThereYetIsFetchedFirst(t *testing.T) {
	r := first(t)
	r.doc.Kubernetes.KubeadmConfig = r.give("kind: KubeletConfiguration\n")
	if err := os.Remove(r.files.Path(*r.doc.Kubernetes.KubeadmConfig)); err != nil {
		t.Fatal(err)
	}
	r.expect(installed, "False FileUnavailable")
	if runs := r.runs(); runs != nil {
		t.Errorf("kubeadm ran as %q", verbs(runs))
	}
}

// The images of another repository are others.
func TestTheImagesArePulledOnceForEachSource(t *testing.T) {
	r := machine(t, api.RoleMaster) // which waits
	r.expect(installed, "True Installed")
	r.runs()
	r.restart()
	r.idle()
	r.doc.Kubernetes.ImageRepository = "10.10.0.7:5000/k8s"
	r.expect(installed, "True Installed")
	if got := verbs(r.runs()); got != "preflight" {
		t.Errorf("kubeadm ran as %q", got)
	}
}

func TestTheEngine(t *testing.T) {
	dump := func(content string) func(*rig) {
		return func(r *rig) {
			r.m.ContainerdConfig = func(string, map[string]hosttest.FileState) ([]byte, error) { return []byte(content), nil }
		}
	}
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
		words  []string
	}{
		"runs":    {func(*rig) {}, "True EngineRunning", []string{"containerd 1.7.24"}},
		"stopped": {func(r *rig) { *r.m.Units["containerd.service"] = hosttest.UnitState{} }, "True EngineRunning", nil},
		"missing": {func(r *rig) { delete(r.m.Units, "containerd.service") }, "False EngineNotRunning", []string{"containerd.service", "not-found"}},
		"does not start": {func(r *rig) {
			*r.m.Units["containerd.service"] = hosttest.UnitState{Enabled: true}
			r.m.Fail["start"] = errors.New("failed")
		}, "False EngineNotRunning", []string{"containerd.service", "failed"}},
		"has its interface turned off": {
			dump("version = 2\ndisabled_plugins = ['cri']\nimports = ['/etc/containerd/config.toml', '/etc/containerd/conf.d/a.toml']\n[plugins]\n"),
			"False EngineConfigInvalid", []string{"/etc/containerd/config.toml", "disabled_plugins", "also in /etc/containerd/conf.d/a.toml"},
		},
		"refuses its configuration": {func(r *rig) {
			r.m.ContainerdConfig = func(string, map[string]hosttest.FileState) ([]byte, error) {
				return nil, &host.CommandError{Argv: []string{"containerd"}, Code: 1, Output: "line 3: invalid", Err: errors.New("exit status 1")}
			}
		}, "False EngineConfigInvalid", []string{"line 3: invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, api.RoleWorker)
			c.change(r)
			r.expect(engine, c.want, c.words...)
			if strings.HasPrefix(c.want, "True") {
				if u := r.m.Units["containerd.service"]; !u.Active || !u.Enabled {
					t.Errorf("the unit is %+v", u)
				}
				r.idle()
			}
		})
	}
}
