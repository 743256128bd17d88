package kubeadm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The agent's own files, from which the next boot sets what Pods need. The second has a name
// after those with numbers, because the last file counts.
const (
	modulesFile = "/etc/modules-load.d/nodehitch-kubernetes.conf"
	sysctlFile  = "/etc/sysctl.d/nodehitch-kubernetes.conf"
	publicMode  = 0o644
)

// overlay is the file system, and the module, of the images of containerd.
const overlay = "overlay"

// modules are those that containerd and the networks of Pods use. A kernel may have them built in.
var modules = []string{overlay, "br_netfilter"}

// kubeletConfig is where kubeadm writes kubelet's configuration, which is the cluster's.
const kubeletConfig = "/var/lib/kubelet/config.yaml"

// kubeletTolerates reports whether kubelet's configuration has this member as false. The cluster's
// is what kubeadm has written on a member, and before that known to masters alone: on a worker,
// nothing is said.
func (p *preparation) kubeletTolerates(member string) bool {
	if p.desired.Role == api.RoleMaster && !p.joined {
		return ofKind(p.documents, "KubeletConfiguration")[member] == false
	}
	content, err := p.Host.Files.Read(kubeletConfig)
	if err != nil {
		return true
	}
	var config document
	return yaml.Unmarshal(content, &config) != nil || config[member] == false
}

// argsFiles are where the packages of kubelet let the owner of the machine give it flags.
var argsFiles = []string{"/etc/default/kubelet", "/etc/sysconfig/kubelet"}

// swap says that kubelet would not start.
func (p *preparation) swap() error {
	swaps, err := p.Host.Kernel.Swaps()
	if err != nil || len(swaps) == 0 || p.kubeletTolerates("failSwapOn") {
		return err
	}
	for _, path := range argsFiles {
		content, err := p.Host.Files.Read(path)
		if err == nil && strings.Contains(string(content), "--fail-swap-on=false") {
			return nil
		}
	}
	return converge.Wait(api.ReasonSwapOn, "this machine swaps to %s, and kubelet does not start with swap: `swapoff -a`, and take it out of /etc/fstab", strings.Join(swaps, ", "))
}

// firstWithoutCgroupV1 is the minor version from which on kubelet refuses cgroup v1.
const firstWithoutCgroupV1 = 35

// refusesCgroups reports whether kubelet refuses the machine's cgroups, unless it is configured to
// tolerate them.
func (m *Machine) refusesCgroups(s *api.KubernetesSection) (bool, error) {
	parts := strings.Split(s.Version, ".")
	minor, err := strconv.Atoi(parts[min(1, len(parts)-1)])
	if err != nil || minor < firstWithoutCgroupV1 {
		return false, nil //nolint:nilerr // the version on the machine was compared with it
	}
	v2, err := m.exists("/sys/fs/cgroup/cgroup.controllers")
	return err == nil && !v2, err
}

// unverifiable are the checks of kubeadm's that fail on a machine that kubelet tolerates: kubeadm
// does not ask how kubelet is configured.
func (m *Machine) unverifiable(s *api.KubernetesSection) []string {
	if refuses, err := m.refusesCgroups(s); err != nil || !refuses {
		return nil
	}
	return []string{"SystemVerification"}
}

// cgroups says that kubelet would not start.
func (p *preparation) cgroups() error {
	refuses, err := p.refusesCgroups(p.section)
	if err != nil || !refuses || p.kubeletTolerates("failCgroupV1") {
		return err
	}
	return converge.Fail(api.ReasonCgroupUnsupported, "this machine has cgroup v1, which Kubernetes %s refuses; take an image with cgroup v2, or set failCgroupV1: false in the KubeletConfiguration", p.section.Version)
}

// parameter is a kernel parameter that Pods need.
type parameter struct {
	name string
	// optional is one that only some networks need: a kernel may not have it.
	optional bool
}

func (p *preparation) parameters() []parameter {
	list := []parameter{{"net.ipv4.ip_forward", false}}
	if network, err := netip.ParsePrefix(podCIDR(p.desired)); err == nil && network.Addr().Is6() {
		list = []parameter{{"net.ipv6.conf.all.forwarding", false}, {"net.ipv6.conf.default.forwarding", false}}
	}
	return append(list, parameter{"net.bridge.bridge-nf-call-iptables", true}, parameter{"net.bridge.bridge-nf-call-ip6tables", true})
}

func podCIDR(desired *api.NodeConfig) string {
	if desired.Cluster == nil {
		return ""
	}
	return desired.Cluster.PodCIDR
}

// kernel plans the modules and parameters, now and for each boot.
func (p *preparation) kernel() error {
	content := []byte("# Written by nodehitch-agent.\n" + strings.Join(modules, "\n") + "\n")
	same, err := p.Host.Files.Same(modulesFile, content, publicMode)
	if err != nil {
		return err
	}
	images, err := p.Host.Kernel.FileSystem(overlay)
	if err != nil {
		return err
	}
	if !same || !images { // the file says that they were tried: a kernel may have them built in, or do without br_netfilter
		p.do("load the kernel modules "+strings.Join(modules, ", "), func(ctx context.Context) error {
			failed := map[string]error{}
			for _, module := range modules {
				if failed[module] = p.Host.Kernel.Load(ctx, module); failed[module] != nil {
					p.Log.Info("a kernel module is not loaded", "module", module, "error", failed[module])
				}
			}
			if err := p.Host.Files.Write(modulesFile, content, publicMode); err != nil {
				return err
			}
			return p.mountsImages(failed[overlay])
		})
	}
	var settings strings.Builder
	settings.WriteString("# Written by nodehitch-agent.\n")
	var wrong []parameter
	for _, each := range p.parameters() {
		fmt.Fprintf(&settings, "-%s = 1\n", each.name)
		value, err := p.Host.Kernel.Setting(each.name)
		if value != "1" && (err == nil || !each.optional || !same) {
			wrong = append(wrong, each)
		}
	}
	text := []byte(settings.String())
	if same, err = p.Host.Files.Same(sysctlFile, text, publicMode); err != nil {
		return err
	}
	if !same {
		p.do("write "+sysctlFile, func(context.Context) error { return p.Host.Files.Write(sysctlFile, text, publicMode) })
	}
	for _, each := range wrong {
		p.do("set "+each.name, func(context.Context) error { return p.set(each) })
	}
	return nil
}

// mountsImages says that containerd cannot use images; failed is why the module was not loaded.
func (p *preparation) mountsImages(failed error) error {
	images, err := p.Host.Kernel.FileSystem(overlay)
	if err != nil || images {
		return err
	}
	return converge.Wait(api.ReasonModuleMissing, "the kernel has no file system %s, which containerd needs for images, and its module is not loaded: %v; install that module, and restart containerd", overlay, failed)
}

func (p *preparation) set(each parameter) error {
	err := p.Host.Kernel.Set(each.name, "1")
	if err == nil || each.optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return converge.Wait(api.ReasonModuleMissing, "the kernel parameter %s cannot be set to 1, which Pods need: %v", each.name, err)
}

// ofPods are the beginnings of the names of the interfaces that the networks of Pods make.
var ofPods = []string{"cni", "flannel", "kube-ipvs", "cali", "cilium", "tunl", "vxlan", "veth", "docker"}

// networks says that an address of the machine, or of a master, would be taken for a Pod's or a
// Service's. Once it is a member, the machine itself has addresses of those.
func (p *preparation) networks() error {
	c := p.desired.Cluster
	if c == nil {
		return nil
	}
	all, err := p.Host.Kernel.Addresses()
	if err != nil {
		return err
	}
	addresses := map[netip.Addr]string{}
	for name, each := range all {
		if slices.ContainsFunc(ofPods, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			continue
		}
		for _, a := range each {
			addresses[a] = "of this machine"
		}
	}
	for _, s := range c.Masters {
		for _, text := range s.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				addresses[a] = cmp.Or(addresses[a], "of the master "+s.Name)
			}
		}
	}
	for _, network := range []struct{ name, cidr string }{{"pod_cidr", c.PodCIDR}, {"cluster_cidr", c.ServiceCIDR}} {
		prefix, err := netip.ParsePrefix(network.cidr)
		if err != nil {
			continue
		}
		for _, a := range slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare) {
			if prefix.Contains(a) {
				return converge.Fail(api.ReasonNetworksOverlap, "%s %s contains %s, an address %s; choose another network", network.name, network.cidr, a, addresses[a])
			}
		}
	}
	return nil
}
