package kube

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/image"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// ErrNoMachines says that the cache does not have what BuildMachines builds.
var ErrNoMachines = errors.New("what machines need to be a cluster of Kubernetes is not built: run `make kubernetes`, once")

// PodNetwork is a manifest, for kubectl apply, of the network of Pods between machines of a lab.
//
//go:embed podnetwork/manifest.yaml
var PodNetwork []byte

// ProxyConfiguration is a document for kubeadm's configuration. On nspawn machines kube-proxy
// ends without it, because the limits of conntrack are the host's.
const ProxyConfiguration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: 0}
`

// TestImage is an image on the machines for Pods of tests: Debian's busybox, with a shell.
const TestImage = "nodehitch.test/busybox:1"

// TestDeployment is the manifest of a Deployment of three Pods of an image, TestImage or a copy of
// it, each Ready once it answers.
func TestDeployment(name, image string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 3
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: %[2]s
        command: [busybox, httpd, -f, -p, "8080"]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
`, name, image)
}

// Machines is what machines of a lab need, so that kubeadm makes a cluster of them: nothing is
// pulled or installed. No other process removes it until Close.
type Machines struct {
	// Kubelet is for the Spec of each machine.
	Kubelet *lab.Kubelet
	cache   *image.Cache
}

// FindMachines returns what BuildMachines has left in a cache, or ErrNoMachines.
func FindMachines(cache string) (*Machines, error) {
	name, key, err := machinesKey()
	if err != nil {
		return nil, err
	}
	found, err := find(cache, name, key, ErrNoMachines)
	if err != nil {
		return nil, err
	}
	return &Machines{cache: found.cache, Kubelet: kubeletIn(found.Dir)}, nil
}

// FindEtcdutl returns etcdutl, which BuildMachines has left in a cache and no machine has, or
// ErrNoMachines.
func FindEtcdutl(cache string) (*Binaries, error) { return etcdutl.find(cache, ErrNoMachines) }

// Close lets go of it. Machines that run need it.
func (m *Machines) Close() error { return m.cache.Close() }

// The folders of Machines in the cache.
const (
	layer      = "layer"
	containerd = "containerd"
)

// onMachines are the programs that a machine has outside of images.
var onMachines = []string{"kubeadm", "kubectl", "kubelet"}

// BuildMachines builds Machines into a cache, as Build does with its programs, which it
// builds too, and the image of VMs with them. It starts a machine of the lab.
func BuildMachines(ctx context.Context, cache string, log func(format string, args ...any)) (err error) {
	for _, s := range append(slices.Clone(machineSets), etcdutl, otherVersion(OlderPatch), otherVersion(NextMinor)) {
		if err := s.build(ctx, cache, log); err != nil {
			return err
		}
	}
	name, key, err := machinesKey()
	if err != nil {
		return err
	}
	open, err := image.OpenCache(cache, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	dir, err := open.Get(ctx, name, key, func(ctx context.Context, dir string) error {
		return fillMachines(ctx, cache, dir, log)
	})
	if err != nil {
		return err
	}
	system, err := lab.System("").OrDefault()
	if err != nil {
		return err
	}
	kubelet := kubeletIn(dir)
	_, err = open.VMWithKubelet(ctx, system, kubelet.Programs, kubelet.Containerd)
	return err
}

func kubeletIn(dir string) *lab.Kubelet {
	return &lab.Kubelet{Programs: filepath.Join(dir, layer), Containerd: filepath.Join(dir, containerd)}
}

var machineSets = []set{allPrograms, machinePrograms, coreDNS}

// machinesKey changes with everything that makes other machines, apart from the versions of
// Debian's packages and of Go. Name is that of the system's machines.
func machinesKey() (name, key string, err error) {
	system, err := lab.System("").OrDefault()
	if err != nil {
		return "", "", err
	}
	var parts []string
	for _, s := range machineSets {
		key, err := s.key()
		if err != nil {
			return "", "", err
		}
		parts = append(parts, key)
	}
	for _, file := range []string{"images.go", "pause/main.go", "podnetwork/main.go"} {
		source, err := os.ReadFile(filepath.Join(sourcetree.Path("e2e/kube"), file))
		if err != nil {
			return "", "", err
		}
		parts = append(parts, string(source))
	}
	return system.Named("kubernetes"), image.Key(parts...), nil
}

func fillMachines(ctx context.Context, cache, dir string, log func(string, ...any)) (err error) {
	if lacks := lab.Missing(lab.KindNspawn); len(lacks) > 0 {
		return fmt.Errorf("this host cannot run the lab:\n- %s", strings.Join(lacks, "\n- "))
	}
	programs := map[string]string{} // path by name
	for _, s := range machineSets {
		found, notFound := s.find(cache, fs.ErrNotExist)
		if notFound != nil {
			return fmt.Errorf("%s: %w", s.name, notFound)
		}
		defer func() { err = errors.Join(err, found.Close()) }()
		for _, p := range s.programs {
			programs[p.name] = filepath.Join(found.Dir, p.name)
		}
	}
	bin := filepath.Join(dir, layer, "usr/bin")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.Mkdir(filepath.Join(dir, containerd), 0o755)); err != nil {
		return err
	}
	for _, name := range onMachines {
		if err := os.Link(programs[name], filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	l, err := lab.Open(ctx, lab.Options{Cache: cache, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	node, err := l.Nspawn(ctx, lab.Spec{Name: "images", Kubelet: &lab.Kubelet{}})
	if err != nil {
		return err
	}
	if err := importImages(ctx, node, l.Dir(), programs, log); err != nil {
		return err
	}
	if err := node.Stop(ctx); err != nil {
		return err
	}
	return l.KeepContainerd(node, filepath.Join(dir, containerd))
}
