package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// set is what is built and kept together, from a module of the folder e2e/kube.
type set struct {
	name, module string
	programs     []program
}

type program struct{ name, path string }

var (
	allPrograms = set{"kube", kubernetesModule, programs}
	etcdAlone   = set{"etcd", kubernetesModule, programs[:1]}
	// machinePrograms are what the lab's machines need besides, to be a cluster.
	machinePrograms = set{"kube-machines", kubernetesModule, []program{
		{"kubeadm", kubernetes + "/cmd/kubeadm"},
		{"kubelet", kubernetes + "/cmd/kubelet"},
		{"kube-scheduler", kubernetes + "/cmd/kube-scheduler"},
		{"kube-proxy", kubernetes + "/cmd/kube-proxy"},
	}}
	coreDNS = set{"coredns", "coredns", []program{{"coredns", "github.com/coredns/coredns"}}}
	etcdutl = set{"etcdutl", "etcdutl", []program{{"etcdutl", "go.etcd.io/etcd/etcdutl/v3"}}}
)

// OlderPatch and NextMinor are the versions beside Version that clusters are upgraded from and to.
const (
	OlderPatch = "v1.34.3"
	NextMinor  = "v1.35.4"
)

// otherVersion is what Kubernetes consists of in another version than Version. Its etcd and CoreDNS
// are those of Version.
func otherVersion(version string) set {
	return set{"kube-" + version, filepath.Join("versions", version), slices.Concat(programs[1:], machinePrograms.programs)}
}

// programs are those that the cluster consists of, and kubectl.
var programs = []program{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", kubernetes + "/cmd/kube-apiserver"},
	{"kube-controller-manager", kubernetes + "/cmd/kube-controller-manager"},
	{"kubectl", kubernetes + "/cmd/kubectl"},
}

const (
	kubernetes       = "k8s.io/kubernetes"
	kubernetesModule = "binaries"
)

// buildArguments say each package that is compiled, for progress; the rest
// makes the programs small, and the same wherever they are built.
var buildArguments = []string{"build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"}

// scratchBytes is the free space that a build needs: the compiled packages have
// 3.5 GB, the programs a tenth of that.
const scratchBytes = 5 << 30

// Build builds the programs into a cache (empty means $NODEHITCH_CACHE or
// image.DefaultCache) unless they are there: minutes of processor time. Log
// receives progress, one line per call. A build that was cut off goes on where it was.
func Build(ctx context.Context, cache string, log func(format string, args ...any)) error {
	return allPrograms.build(ctx, cache, log)
}

// BuildEtcd builds etcd alone, in a minute, for tests that need nothing else of Kubernetes.
func BuildEtcd(ctx context.Context, cache string, log func(format string, args ...any)) error {
	if found, err := FindEtcd(cache); err == nil {
		return found.Close()
	}
	return etcdAlone.build(ctx, cache, log)
}

func (s set) build(ctx context.Context, cache string, log func(format string, args ...any)) (err error) {
	key, err := s.key()
	if err != nil {
		return err
	}
	open, err := image.OpenCache(cache, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	_, err = open.Get(ctx, s.name, key, func(ctx context.Context, dir string) error {
		return s.fill(ctx, dir, log)
	})
	return err
}

// fill fills dir. What is compiled stays beside it until all is done, and not in
// the user's own cache: it is not needed again.
func (s set) fill(ctx context.Context, dir string, log func(string, ...any)) error {
	compiled := dir + ".compiled"
	if err := os.MkdirAll(compiled, 0o755); err != nil {
		return err
	}
	if err := hasSpace(compiled); err != nil {
		return err
	}
	flags, err := s.linkerFlags()
	if err != nil {
		return err
	}
	for _, p := range s.programs {
		began := time.Now()
		cmd := s.goCommand(ctx, append(slices.Clone(buildArguments), "-ldflags", flags, "-o", filepath.Join(dir, p.name), p.path)...)
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOCACHE="+compiled)
		if err := run(cmd, s.name, p.name, log); err != nil {
			return fmt.Errorf("building %s: %w", p.name, err)
		}
		file, err := os.Stat(filepath.Join(dir, p.name))
		if err != nil {
			return err
		}
		log("image %s: %s, %d MB, built in %.0f s", s.name, p.name, file.Size()>>20, time.Since(began).Seconds())
	}
	return os.RemoveAll(compiled)
}

func (s set) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.moduleDir()
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

const stripped = "-s -w"

// Version is the version of Kubernetes, such as v1.34.4.
func Version() (string, error) { return allPrograms.version() }

func (s set) version() (string, error) {
	path := filepath.Join(s.moduleDir(), "go.mod")
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	module, err := modfile.ParseLax(path, content, nil)
	if err != nil {
		return "", err
	}
	for _, required := range module.Require {
		if required.Mod.Path == kubernetes {
			return required.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", path, kubernetes)
}

// linkerFlags put the version into the programs of Kubernetes, which would not know it otherwise.
func (s set) linkerFlags() (string, error) {
	if s.module == coreDNS.module || s.module == etcdutl.module {
		return stripped, nil
	}
	version, err := s.version()
	if err != nil {
		return "", err
	}
	number := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(number) != 3 {
		return "", fmt.Errorf("go.mod has version %q of Kubernetes: want v<major>.<minor>.<patch>", version)
	}
	flags := stripped
	for name, value := range map[string]string{"gitVersion": version, "gitMajor": number[0], "gitMinor": number[1]} {
		flags += " -X k8s.io/component-base/version." + name + "=" + value
	}
	return flags, nil
}

// run runs go build and says how far it is. Its error ends in what go said last.
func run(cmd *exec.Cmd, image, name string, log func(string, ...any)) error {
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := follow(output, image, name, log)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w:\n%s", err, strings.Join(said, "\n"))
	}
	return nil
}

// follow counts the packages in the output of go build -v until it ends, and
// returns its last lines.
func follow(output io.Reader, image, name string, log func(string, ...any)) (last []string) {
	const every, keep = 200, 20
	lines := bufio.NewScanner(output)
	for count := 1; lines.Scan(); count++ {
		last = append(last, lines.Text())
		last = last[max(0, len(last)-keep):]
		if count%every == 0 {
			log("image %s: %s, %d packages compiled", image, name, count)
		}
	}
	return last
}

func hasSpace(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("looking for free space at %s: %w", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < scratchBytes {
		return fmt.Errorf("%s has %d MiB free: compiling Kubernetes takes %d MiB there for a while; make room, or name another cache by NODEHITCH_CACHE",
			dir, free>>20, scratchBytes>>20)
	}
	return nil
}
