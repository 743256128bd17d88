package kubernetes

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// fault is what is wrong with a machine, which its condition names until it is mended.
type fault struct {
	name      string
	machine   []string // what puts it wrong
	condition string
	reason    api.Reason
	says      []string
	mend      []string // nil if only another image would
}

// faults are those of a master's machine.
var faults = []fault{
	{"cri-off", []string{"sed", "-i", `1i disabled_plugins = ["io.containerd.grpc.v1.cri"]`, "/etc/containerd/config.toml"},
		api.ConditionEngineReady, api.ReasonEngineConfigInvalid, []string{"/etc/containerd/config.toml", "disabled_plugins"},
		[]string{"sed", "-i", "1d", "/etc/containerd/config.toml"}},
	{"no-engine", []string{"systemctl", "mask", "--now", "containerd"},
		api.ConditionEngineReady, api.ReasonEngineNotRunning, []string{"containerd.service is masked"},
		[]string{"systemctl", "unmask", "containerd"}},
	{"no-kubelet", []string{"mv", "/usr/bin/kubelet", "/root"},
		api.ConditionKubernetesInstalled, api.ReasonProgramMissing, []string{"kubelet is not on this machine", "1.34.4"},
		[]string{"mv", "/root/kubelet", "/usr/bin"}},
	{"another-version", []string{"sh", "-euc", `mv /usr/bin/kubeadm /root; printf '#!/bin/sh\necho v1.33.9\n' >/usr/bin/kubeadm; chmod 755 /usr/bin/kubeadm`},
		api.ConditionKubernetesInstalled, api.ReasonVersionDiffers, []string{"kubeadm is of version 1.33.9", "1.34.4"},
		[]string{"mv", "/root/kubeadm", "/usr/bin"}},
	{"port-in-use", []string{"systemd-run", "--unit=other", "busybox", "httpd", "-f", "-p", "10259"},
		api.ConditionKubernetesInstalled, api.ReasonPortInUse, []string{"Port 10259 is in use"},
		[]string{"systemctl", "stop", "other"}},
	{"networks-overlap", []string{"ip", "address", "add", "10.244.7.7/32", "dev", "host0"},
		api.ConditionKubernetesInstalled, api.ReasonNetworksOverlap, []string{"pod_cidr 10.244.0.0/16 contains 10.244.7.7"},
		[]string{"ip", "address", "del", "10.244.7.7/32", "dev", "host0"}},
	{"no-image", []string{"sh", "-euc", "systemctl start containerd; ctr --namespace k8s.io images rm registry.k8s.io/kube-scheduler:v1.34.4"},
		api.ConditionKubernetesInstalled, api.ReasonImageUnavailable, []string{"registry.k8s.io/kube-scheduler:v1.34.4"}, nil},
}

// TestWrongMachines has a master of each fault. Its condition says what is wrong in the words of
// who found it; once that is mended, the master makes its cluster.
func TestWrongMachines(t *testing.T) {
	w := newCluster(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			results.Begin(t, suite, f.name, "a machine with this fault is not made a master; its condition says what is wrong, and what is mended is taken up")
			defer w.During(t)()
			one := w.another()
			defer one.Explain()
			one.draw(1, 0)
			one.ask()
			one.boot(one.Topology.Servers...)
			m := one.Of(masterPoint)[0]
			m.Run(f.machine...)
			ended := one.Begin(api.Instantiate, "--partial")
			f.isSaid(m)
			if f.mend == nil {
				w.Must("cancel", "operation", one.LastOperation().ID)
				<-ended
			} else {
				m.Run(f.mend...)
				one.Completes(ended)
			}
			one.Destroy(m)
		})
	}
}

// isSaid waits until the machine's condition names the fault.
func (f fault) isSaid(m *sitetest.Machine) {
	m.W.T.Helper()
	said := m.Says(f.condition, f.reason)
	for _, part := range f.says {
		if !strings.Contains(said, part) {
			m.W.T.Errorf("%s says %q, not %q", f.condition, said, part)
		}
	}
}

// Faults of a worker with a kernel of its own. A container has its host's.
var (
	noOverlay = fault{"no-overlay", []string{"sh", "-euc", "mv /lib/modules/*/kernel/fs/overlayfs/overlay.ko /root; systemctl stop containerd; ! grep overlay /proc/filesystems || rmmod overlay; systemctl start --no-block containerd"},
		api.ConditionKubernetesInstalled, api.ReasonModuleMissing, []string{"overlay", "restart containerd"},
		[]string{"sh", "-euc", "mv /root/overlay.ko /lib/modules/*/kernel/fs/overlayfs; modprobe overlay; systemctl restart containerd"}}
	swaps = fault{"swap", []string{"sh", "-euc", "dd if=/dev/zero of=/swapfile bs=1M count=64 status=none; chmod 600 /swapfile; mkswap /swapfile; swapon /swapfile; systemctl restart kubelet"},
		api.ConditionKubernetesInstalled, api.ReasonSwapOn, []string{"/swapfile", "swapoff -a"},
		[]string{"swapoff", "--all"}}
)

// TestWrongKernel has a worker that lacks a module, and swaps when it is a member, as after a
// boot with another fstab.
func TestWrongKernel(t *testing.T) {
	results.LongOnly(t)
	w := newCluster(t, lab.KindVM)
	results.Begin(t, suite, "wrong-kernel", "a worker whose kernel lacks a module is not joined, and its condition names it until it is there; a member that swaps says so, and is Ready when it does not")
	w.draw(1, 0)
	w.drawVirtual()
	w.ask()
	w.boot(w.Topology.Servers...)
	worker := w.lastWorker()
	worker.Run(noOverlay.machine...)
	ended := w.Begin(api.Instantiate)
	noOverlay.isSaid(worker)
	worker.Run(noOverlay.mend...)
	w.Completes(ended)
	worker.Run(swaps.machine...)
	swaps.isSaid(worker)
	worker.Run(swaps.mend...)
	w.sound()
}
