package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// KubernetesState is kubeadm, and what it has been asked for. What it makes survives a reboot, and
// a power failure once it was synchronized.
type KubernetesState struct {
	host.KubernetesVersions
	// Leaves are the files that a run leaves, in the order in which it makes them. The machine
	// may stop before each. nil for none.
	Leaves func(KubeadmRun) []LeftFile
	// Refuses is what kubeadm prints instead of doing something, by what it is asked for.
	Refuses map[string]string
	// Finds is what kubeadm prints if it does not go on with what it finds, "" if it does. nil for
	// that it always does. It is called with the machine locked.
	Finds func(KubeadmRun) string
	// Runs are those that changed something, also those that failed or were cut off.
	Runs []KubeadmRun
}

// KubeadmRun is one run of kubeadm: preflight, init, join, etcd, upload-certs, upgrade apply, upgrade
// node or renew, with its documents.
type KubeadmRun struct {
	Verb string
	// Version is what an upgrade is to, and Ignored are the checks that do not count for it.
	Version   string
	Ignored   []string
	Documents []map[string]any
	// Secrets are those that the agent keeps out of what kubeadm prints.
	Secrets []string
}

// Document is the document of a kind, nil if there is none.
func (r KubeadmRun) Document(kind string) map[string]any {
	for _, d := range r.Documents {
		if d["kind"] == kind {
			return d
		}
	}
	return nil
}

// LeftFile is a file that kubeadm, or the kubelet that it starts, makes.
type LeftFile struct {
	Path string
	FileState
	// Kubelet says that kubeadm starts kubelet before the file is made.
	Kubelet bool
	// Durable says that the file is on the disk at once, as kubelet's certificate is.
	Durable bool
	// Then is what follows from the file, such as a Node; nil for nothing.
	Then func()
}

// Kubernetes is a machine with kubeadm and kubelet of a version, and a kubelet.service as their
// package leaves it: enabled, and failing until it has a configuration.
func Kubernetes(version string) Part {
	return func(m *Machine) {
		m.Kubernetes = KubernetesState{
			KubernetesVersions: host.KubernetesVersions{Kubeadm: version, Kubelet: version}, Refuses: map[string]string{},
		}
		m.Units["kubelet.service"] = &UnitState{Enabled: true}
	}
}

type kubeadm struct{ *Machine }

func (h kubeadm) Versions(context.Context) (host.KubernetesVersions, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.versions(), h.Fail["kubeadm version"]
}

// versions are those of the programs that are found first.
func (m *Machine) versions() host.KubernetesVersions {
	found := m.Kubernetes.KubernetesVersions
	for name, version := range map[string]*string{"kubeadm": &found.Kubeadm, "kubelet": &found.Kubelet} {
		if file, ok := m.Files["/usr/local/bin/"+name]; ok {
			*version = versionText.FindString(file.Content)
		}
	}
	return found
}

// versionText is in the content of a program that a test puts on the machine.
var versionText = regexp.MustCompile(`\d+\.\d+\.\d+`)

// kinds are those that kubeadm knows, by what it is asked for; each needs the first.
var kinds = map[string][]string{
	"preflight":    {"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration", "KubeProxyConfiguration"},
	"init":         {"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration", "KubeProxyConfiguration"},
	"etcd":         {"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration", "KubeProxyConfiguration"},
	"upload-certs": {"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration", "KubeProxyConfiguration"},
	"join":         {"JoinConfiguration"},
}

func (h kubeadm) Validate(_ context.Context, c host.KubeadmConfig) error {
	h.changes.Read()
	h.mu.Lock()
	defer h.mu.Unlock()
	run, err := h.begin(KubeadmRun{Verb: "validate"}, c)
	if err == nil {
		err = h.refusal(run)
	}
	return err
}

func (h kubeadm) Preflight(_ context.Context, c host.KubeadmConfig) error {
	return h.run("preflight", c)
}

func (h kubeadm) Init(_ context.Context, c host.KubeadmConfig) error { return h.run("init", c) }

func (h kubeadm) Join(_ context.Context, c host.KubeadmConfig) error { return h.run("join", c) }

func (h kubeadm) RestoreEtcd(_ context.Context, c host.KubeadmConfig) error { return h.run("etcd", c) }

func (h kubeadm) UploadCertificates(_ context.Context, c host.KubeadmConfig) error {
	return h.run("upload-certs", c)
}

func (h kubeadm) UpgradeApply(_ context.Context, version string, ignored []string) error {
	return h.runs(KubeadmRun{Verb: "upgrade apply", Version: version, Ignored: ignored}, host.KubeadmConfig{})
}

func (h kubeadm) UpgradeNode(_ context.Context, ignored []string) error {
	return h.runs(KubeadmRun{Verb: "upgrade node", Ignored: ignored}, host.KubeadmConfig{})
}

func (h kubeadm) RenewCertificates(context.Context) error {
	return h.run("renew", host.KubeadmConfig{})
}

func (h kubeadm) Sync() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("synchronize", "kubeadm's files"); err != nil {
		return err
	}
	clear(h.unsynced)
	return nil
}

// startKubelet does what the unit says that is done before kubelet starts.
func (m *Machine) startKubelet() {
	if u := m.Units["kubelet.service"]; u != nil && strings.Contains(u.Loaded, "ExecStartPre=-/usr/bin/sync --file-system /etc/kubernetes /var/lib/kubelet\n") {
		clear(m.unsynced)
	}
}

// begin reads the documents.
func (h kubeadm) begin(run KubeadmRun, c host.KubeadmConfig) (KubeadmRun, error) {
	run.Secrets = c.Secrets
	if h.versions().Kubeadm == "" {
		return run, h.failed(run, errors.New("kubeadm: no such program is installed"), "")
	}
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(c.Documents), 4096)
	for {
		var document map[string]any
		err := reader.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return run, h.failed(run, errors.New("exit status 1"), err.Error())
		}
		if document["kind"] == nil || document["apiVersion"] == nil {
			return run, h.failed(run, errors.New("exit status 1"), "kind and apiVersion is mandatory information that must be specified")
		}
		run.Documents = append(run.Documents, document)
	}
	if known := kinds[run.Verb]; known != nil && run.Document(known[0]) == nil {
		return run, h.failed(run, errors.New("exit status 3"), "no "+known[0]+" found in config file")
	}
	return run, nil
}

func (h kubeadm) run(verb string, c host.KubeadmConfig) error {
	return h.runs(KubeadmRun{Verb: verb}, c)
}

// runs is a run that changes the machine. It ends before a file that the machine stops before.
func (h kubeadm) runs(run KubeadmRun, c host.KubeadmConfig) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	run, err := h.begin(run, c)
	if err != nil {
		return err
	}
	if err := h.change("kubeadm "+run.Verb, ""); err != nil {
		return err
	}
	h.Kubernetes.Runs = append(h.Kubernetes.Runs, run)
	if err := h.refusal(run); err != nil {
		return err
	}
	if h.Kubernetes.Leaves == nil {
		return nil
	}
	for _, left := range h.Kubernetes.Leaves(run) {
		if err := h.change("kubeadm writes", left.Path); err != nil {
			return err
		}
		if left.Kubelet {
			h.startKubelet()
		}
		h.Files[left.Path], h.Written[left.Path] = left.FileState, h.now()
		h.unsynced[left.Path] = !left.Durable
		if left.Then != nil {
			left.Then()
		}
	}
	return nil
}

// refusal is what kubeadm prints if the test lets it fail.
func (h kubeadm) refusal(run KubeadmRun) error {
	if h.Kubernetes.Finds != nil {
		if said := h.Kubernetes.Finds(run); said != "" {
			return h.failed(run, errors.New("exit status 1"), said)
		}
	}
	if said, ok := h.Kubernetes.Refuses[run.Verb]; ok {
		return h.failed(run, errors.New("exit status 1"), said)
	}
	return nil
}

// failed is the error, as the Runner makes it: of the last 1500 characters, on one line. The code is
// kubeadm's own, or that of a Go program that panics.
func (h kubeadm) failed(run KubeadmRun, err error, said string) error {
	code := 1
	if strings.HasPrefix(said, "panic: ") {
		code = 2
	}
	for _, secret := range run.Secrets {
		said = strings.ReplaceAll(said, secret, "(redacted)")
	}
	said = strings.TrimSpace(said)
	if len(said) > 1500 {
		said = "…" + said[len(said)-1500:]
	}
	return &host.CommandError{
		Argv: []string{"kubeadm", run.Verb}, Code: code, Output: strings.ReplaceAll(said, "\n", " | "), Err: err,
	}
}

// KernelState is what the kernel has.
type KernelState struct {
	// Settings by name, as sysctl names them. Fixed are those that cannot be set.
	Settings map[string]string
	Fixed    []string
	// Modules that are loaded, and Loadable those that can be, with the settings that they bring.
	Modules  []string
	Loadable map[string]map[string]string
	// BuiltIn are modules that the kernel needs not load.
	BuiltIn []string
	Swaps   []string
	// Addresses by interface.
	Addresses map[string][]netip.Addr
}

func newKernel() KernelState {
	return KernelState{
		Settings:  map[string]string{"net.ipv4.ip_forward": "0", "net.ipv6.conf.default.forwarding": "0", "net.ipv6.conf.all.forwarding": "0"},
		Loadable:  map[string]map[string]string{"overlay": nil, "br_netfilter": {"net.bridge.bridge-nf-call-iptables": "0"}},
		Addresses: map[string][]netip.Addr{"lo": {netip.MustParseAddr("127.0.0.1")}},
	}
}

// bootKernel is a kernel after a boot: it has what the files below /etc say.
func (m *Machine) bootKernel() {
	fresh := newKernel()
	m.Kernel.Settings, m.Kernel.Modules = fresh.Settings, nil
	for _, at := range slices.Sorted(maps.Keys(m.Files)) {
		if strings.HasPrefix(at, "/etc/modules-load.d/") {
			for name := range strings.Lines(m.Files[at].Content) {
				name = strings.TrimSpace(name)
				if settings, ok := m.Kernel.Loadable[name]; ok {
					m.Kernel.Modules = append(m.Kernel.Modules, name)
					maps.Copy(m.Kernel.Settings, settings)
				}
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(m.Files)) {
		if strings.HasPrefix(at, "/etc/sysctl.d/") {
			for line := range strings.Lines(m.Files[at].Content) {
				name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "-"), " = ")
				if _, ok := m.Kernel.Settings[name]; ok && !slices.Contains(m.Kernel.Fixed, name) {
					m.Kernel.Settings[name] = value
				}
			}
		}
	}
}

type kernel struct{ *Machine }

func (h kernel) Setting(name string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, ok := h.Kernel.Settings[name]
	if !ok {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return value, nil
}

func (h kernel) Set(name, value string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.change("set", name); err != nil {
		return err
	}
	h.changes.File()
	if _, ok := h.Kernel.Settings[name]; !ok {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if slices.Contains(h.Kernel.Fixed, name) {
		return &fs.PathError{Op: "open", Path: name, Err: errors.New("read-only file system")}
	}
	h.Kernel.Settings[name] = value
	return nil
}

func (h kernel) Load(_ context.Context, modules ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	if err := h.change("modprobe", fmt.Sprint(modules)); err != nil {
		return err
	}
	var missing []string
	for _, module := range modules {
		settings, ok := h.Kernel.Loadable[module]
		switch {
		case slices.Contains(h.Kernel.Modules, module):
		case !ok:
			missing = append(missing, module)
		default:
			h.Kernel.Modules = append(h.Kernel.Modules, module)
			maps.Copy(h.Kernel.Settings, settings)
		}
	}
	if missing != nil {
		return &host.CommandError{Argv: []string{"modprobe"}, Code: 1, Output: fmt.Sprint(missing, " not found in directory /lib/modules"), Err: errors.New("exit status 1")}
	}
	return nil
}

func (h kernel) FileSystem(name string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.Kernel.BuiltIn, name) || slices.Contains(h.Kernel.Modules, name), nil
}

func (h kernel) Swaps() ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.Kernel.Swaps), nil
}

func (h kernel) Addresses() (map[string][]netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.Kernel.Addresses), nil
}
