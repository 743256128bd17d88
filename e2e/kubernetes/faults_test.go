package kubernetes

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// faults are those of a master's machine, which its condition names until it is mended.
var faults = []struct {
	name      string
	machine   []string // what puts it wrong
	condition string
	reason    api.Reason
	says      []string
	mend      []string // nil if only another image would
}{
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
			one := &cluster{World: w.World, VNF: w.NewVNF(), kubelet: w.kubelet, packageDir: w.packageDir}
			defer one.Explain()
			one.draw(1, 0)
			one.Apply(body, one.packageDir)
			one.boot(one.Topology.Servers...)
			m := one.Of(masterPoint)[0]
			m.Run(f.machine...)
			ended := one.Begin(api.Instantiate, "--partial")
			said := m.Says(f.condition, f.reason)
			for _, part := range f.says {
				if !strings.Contains(said, part) {
					t.Errorf("%s says %q, not %q", f.condition, said, part)
				}
			}
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
