package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Release is Kubernetes in one version, for machines that get it from archives. No other process
// removes its programs until Close.
type Release struct {
	// Version is such as v1.34.4.
	Version string
	// Programs are the paths of those that are made from this version's modules, by name.
	Programs map[string]string

	binaries []*Binaries
}

// FindRelease returns what BuildMachines has left in a cache, or ErrNoMachines. There are releases
// of Version, OlderPatch and NextMinor.
func FindRelease(cache, version string) (*Release, error) {
	own, err := Version()
	if err != nil {
		return nil, err
	}
	sets := []set{otherVersion(version)}
	if version == own {
		sets = []set{allPrograms, machinePrograms}
	}
	r := &Release{Version: version, Programs: map[string]string{}}
	for _, s := range sets {
		found, err := s.find(cache, ErrNoMachines)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.binaries = append(r.binaries, found)
		for _, p := range s.programs {
			r.Programs[p.name] = filepath.Join(found.Dir, p.name)
		}
	}
	return r, nil
}

// Close lets go of the programs.
func (r *Release) Close() (err error) {
	for _, b := range r.binaries {
		err = errors.Join(err, b.Close())
	}
	return err
}

// ImportImages puts the images that kubeadm of this version wants to find into the containerd of a
// machine with those of Version, and returns their names and those of the images of tests. What is
// made from other modules is the same in each release: its images have another tag.
func (r *Release) ImportImages(ctx context.Context, node lab.Node) (names []string, err error) {
	out, err := exec.CommandContext(ctx, r.Programs["kubeadm"], "config", "images", "list", "--kubernetes-version", r.Version).Output()
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm %s for the names of its images: %w", r.Version, err)
	}
	ctr := []string{"ctr", "--namespace", "k8s.io", "images"}
	// It returns when containerd is ready.
	if _, err := node.Exec(ctx, "systemctl", "start", "containerd"); err != nil {
		return nil, err
	}
	listed, err := node.Exec(ctx, append(ctr, "list", "--quiet")...)
	if err != nil {
		return nil, err
	}
	names, there := strings.Fields(string(out)), strings.Fields(string(listed))
	for _, name := range names {
		if slices.Contains(there, name) {
			continue
		}
		untagged := name[:strings.LastIndex(name, ":")+1]
		if r.Programs[strings.TrimSuffix(path.Base(untagged), ":")] != "" {
			err = r.importImage(ctx, node, name)
		} else if i := slices.IndexFunc(there, func(other string) bool { return strings.HasPrefix(other, untagged) }); i >= 0 {
			_, err = node.Exec(ctx, append(ctr, "tag", there[i], name)...)
		} else {
			err = errors.New("no image of that name is on the machine, and no program of the release has it")
		}
		if err != nil {
			return nil, fmt.Errorf("making the image %s: %w", name, err)
		}
	}
	return append(names, podNetworkImage, TestImage), nil
}

func (r *Release) importImage(ctx context.Context, node lab.Node, name string) error {
	image, err := makeImage(ctx, node, name, r.Programs)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := image.Write(&archive); err != nil {
		return err
	}
	const file = "/root/image.tar"
	if err := node.Push(ctx, file, 0o600, archive.Bytes()); err != nil {
		return err
	}
	_, err = node.Exec(ctx, "ctr", "--namespace", "k8s.io", "images", "import", file)
	return err
}
