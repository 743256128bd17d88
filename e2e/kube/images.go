package kube

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

const podNetworkImage = "nodehitch.test/podnetwork:1"

// importImages puts the images of a cluster, and those of tests, into the containerd of a
// machine. Programs are paths by name; scratch is a folder.
func importImages(ctx context.Context, node lab.Node, scratch string, programs map[string]string, log func(string, ...any)) error {
	names, err := imageNames(ctx, programs["kubeadm"])
	if err != nil {
		return err
	}
	for _, name := range []string{"pause", "podnetwork"} {
		programs[name] = filepath.Join(scratch, name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stripped, "-o", programs[name], "./e2e/kube/"+name)
		cmd.Dir, cmd.Env = sourcetree.Path("."), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", name, err, out)
		}
	}
	// It returns when containerd is ready.
	if _, err := node.Exec(ctx, "systemctl", "start", "containerd"); err != nil {
		return err
	}
	for _, name := range append(names, podNetworkImage, TestImage) {
		began := time.Now()
		image, err := makeImage(ctx, node, name, programs)
		if err != nil {
			return fmt.Errorf("making the image %s: %w", name, err)
		}
		var archive bytes.Buffer
		if err := image.Write(&archive); err != nil {
			return err
		}
		size := archive.Len()
		const file = "/root/image.tar"
		if err := node.Push(ctx, file, 0o600, archive.Bytes()); err != nil {
			return err
		}
		if _, err := node.Exec(ctx, "ctr", "--namespace", "k8s.io", "images", "import", file); err != nil {
			return err
		}
		log("image %s: %d MB, made and imported in %.1f s", name, size>>20, time.Since(began).Seconds())
	}
	return nil
}

// imageNames are what kubeadm wants to find.
func imageNames(ctx context.Context, kubeadm string) ([]string, error) {
	version, err := Version()
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--kubernetes-version", version).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm for the names of its images: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// makeImage makes an image around a program, which has the image's last name.
func makeImage(ctx context.Context, node lab.Node, ref string, programs map[string]string) (registry.Image, error) {
	name, _, _ := strings.Cut(path.Base(ref), ":")
	program := "/usr/local/bin/" + name
	image := registry.Image{Tags: []string{ref}, Files: map[string]registry.File{}, Entrypoint: []string{program}}
	var content []byte
	var err error
	if ref == TestImage {
		content, err = node.Pull(ctx, "/bin/busybox")
	} else if programs[name] == "" {
		err = errors.New("there is no program of that name: build it, in e2e/kube/build.go")
	} else {
		content, err = os.ReadFile(programs[name])
	}
	if err != nil {
		return image, err
	}
	image.Files[program] = registry.File{Mode: 0o755, Data: content}
	switch ref {
	case TestImage:
		image.Files["/bin/sh"] = image.Files[program]
	case podNetworkImage:
		err = addFromMachine(ctx, node, image, "/bin/ip")
	}
	if name == "kube-proxy" {
		err = addIptables(ctx, node, image)
	}
	return image, err
}

// addIptables adds Debian's iptables, which is one program by several names, and its plugins.
func addIptables(ctx context.Context, node lab.Node, image registry.Image) error {
	const program = "/usr/sbin/xtables-nft-multi"
	plugins, err := node.Exec(ctx, "find", "/usr/lib", "-path", "*/xtables/*.so")
	if err != nil {
		return err
	}
	if err := addFromMachine(ctx, node, image, append(strings.Fields(string(plugins)), program)...); err != nil {
		return err
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			image.Files["/usr/sbin/"+family+suffix] = image.Files[program]
		}
	}
	return nil
}

// addFromMachine adds files of a machine, and the libraries that they need.
func addFromMachine(ctx context.Context, node lab.Node, image registry.Image, files ...string) error {
	said, err := node.Exec(ctx, append([]string{"ldd"}, files...)...)
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(string(said)) {
		if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") {
			files = append(files, word)
		}
	}
	slices.Sort(files)
	packed, err := node.Exec(ctx, append([]string{"tar", "--create", "--dereference", "--hard-dereference", "--absolute-names", "--"}, slices.Compact(files)...)...)
	if err != nil {
		return err
	}
	for archive := tar.NewReader(bytes.NewReader(packed)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		image.Files[header.Name] = registry.File{Mode: header.FileInfo().Mode(), Data: content}
	}
}
