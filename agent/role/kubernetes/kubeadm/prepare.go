package kubeadm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// prepareGroup is the group of the actions that prepare the machine.
const prepareGroup = "prepare"

// preparation is a plan that is being made.
type preparation struct {
	*Machine
	desired *api.NodeConfig
	section *api.KubernetesSection
	// joined says that the machine is a member, and from is its version if it is to be upgraded.
	joined bool
	from   string
	// documents are kubeadm's documents of the file, once it is downloaded.
	documents []document
	actions   []converge.Action
	errs      []error
}

func (p *preparation) do(summary string, f func(context.Context) error) {
	p.actions = append(p.actions, converge.Action{Summary: summary, Group: prepareGroup, Do: f})
}

func (p *preparation) problem(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// Prepare plans what the machine needs before kubeadm can make it a member or upgrade it, and what
// is left to do after an upgrade, and says what the machine lacks.
func (m *Machine) Prepare(ctx context.Context, desired *api.NodeConfig) ([]converge.Action, error) {
	p, err := m.prepare(ctx, desired)
	if err == nil && len(p.actions) == 0 && p.from != "" {
		err = converge.Wait(api.ReasonConverging, "kubeadm %s is installed, and upgrades this member from %s; see %s", p.section.Version, p.from, api.ConditionClusterMember)
	}
	return p.actions, err
}

func (m *Machine) prepare(ctx context.Context, desired *api.NodeConfig) (p *preparation, err error) {
	p = &preparation{Machine: m, desired: desired, section: desired.Kubernetes}
	if p.joined, err = m.Joined(); err != nil {
		return p, err
	}
	if p.joined {
		if p.from, err = m.behind(ctx, p.section); err != nil {
			return p, err
		}
	}
	if err := p.install(ctx); err != nil || len(p.actions) > 0 {
		return p, err // which programs the machine has is known after that
	}
	if err := p.programs(ctx); err != nil {
		p.actions = nil
		return p, err
	}
	p.problem(p.file())
	p.problem(p.swap())
	p.problem(p.cgroups())
	p.problem(p.kernel())
	if !p.joined {
		p.problem(p.networks())
	}
	if len(p.errs) == 0 {
		p.problem(p.images(ctx))
	}
	if !p.joined && desired.Role == api.RoleMaster && len(p.errs) == 0 {
		p.problem(p.check())
	}
	return p, errors.Join(p.errs...)
}

// programs says which program is missing or has another version, and plans that kubelet starts
// at boot, and again after an upgrade.
func (p *preparation) programs(ctx context.Context) error {
	found, err := p.Host.Kubeadm.Versions(ctx)
	if err != nil {
		return err
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	wanted := p.section.Version
	if o.Attempt == joining && found.Kubeadm == o.Version { // it is upgraded once it is a member
		wanted = o.Version
	}
	for _, program := range []struct{ name, version string }{{kubeadmProgram, found.Kubeadm}, {kubeletProgram, found.Kubelet}} {
		switch program.version {
		case "":
			return converge.Wait(api.ReasonProgramMissing, "%s is not on this machine; expected that of Kubernetes %s%s", program.name, wanted, p.inNoArchive())
		case wanted:
		default:
			if program.name == kubeletProgram && p.from != "" { // kubeadm comes first
				continue
			}
			return converge.Wait(api.ReasonVersionDiffers, "%s is of version %s; expected %s%s", program.name, program.version, wanted, p.replace(o, program.name))
		}
	}
	unit, err := p.Host.Units.Unit(ctx, kubeletService)
	switch {
	case err != nil:
		return err
	case unit.Loaded == "not-found" && slices.Contains(o.Programs, programDirectory+"/"+kubeletProgram):
		p.do("write "+kubeletService+" and enable it", p.writeUnit)
	case unit.Loaded != "loaded":
		return converge.Wait(api.ReasonProgramMissing, "%s is %s: systemd cannot start kubelet; install the package of kubelet with its unit", kubeletService, unit.Loaded)
	case unit.File == "disabled":
		p.do("enable "+kubeletService, p.enableKubelet)
	}
	if o.Restart && p.from == "" {
		p.do("restart "+kubeletService, p.restartKubelet)
	}
	return nil
}

// replace says what to do about a program of another version on a member. The agent replaces only
// those that it has put there.
func (p *preparation) replace(o owned, program string) string {
	switch {
	case slices.Contains(o.Programs, programDirectory+"/"+program):
		return ", which an archive of program_archive_paths must have"
	case p.from != "":
		return fmt.Sprintf(": replace %s first, and leave kubelet as it is; the agent then upgrades this member from %s, and says here when kubelet is to be replaced", program, p.from)
	case o.Restart:
		return ": kubeadm has upgraded this member, so replace kubelet now; the agent then restarts it"
	}
	return ""
}

// file plans the download of kubeadm's configuration.
func (p *preparation) file() (err error) {
	p.documents, err = p.ownDocuments(p.section)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ref := *p.section.KubeadmConfig
	p.do(fmt.Sprintf("fetch kubeadm's configuration %.12s", ref.Sha256), func(ctx context.Context) error { return p.Files.Fetch(ctx, ref) })
	return nil
}

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

// check plans that kubeadm checks the machine as a master, and pulls the images, so that a master
// that waits for its cluster has them.
func (p *preparation) check() error {
	if p.desired.Cluster == nil {
		return nil
	}
	o, err := p.owned()
	if err != nil {
		return err
	}
	key := p.section.Version + " " + p.section.ImageRepository
	if p.section.KubeadmConfig != nil {
		key += " " + p.section.KubeadmConfig.Sha256
	}
	sum := sha256.Sum256([]byte(key))
	identity := hex.EncodeToString(sum[:])
	if o.Checked == identity || o.Attempt != "" { // it would find what the attempt has left
		return nil
	}
	p.do("check this machine and pull the images (kubeadm init phase preflight)", func(ctx context.Context) error {
		documents, err := p.initDocuments(p.desired, nil)
		if err != nil {
			return err
		}
		config, err := p.config(p.desired.Cluster, documents...)
		if err != nil {
			return err
		}
		if err := p.Host.Kubeadm.Validate(ctx, config); err != nil {
			return explain("checking the configuration", api.ReasonJoinFailed, err)
		}
		if err := p.Host.Kubeadm.Preflight(ctx, config); err != nil {
			return explain("checking this machine", api.ReasonJoinFailed, err)
		}
		return p.own(func(o *owned) { o.Checked = identity })
	})
	return nil
}
