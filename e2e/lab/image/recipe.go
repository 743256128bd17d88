// Package image builds the lab's machine images and keeps them: a root folder
// for containers, and a disk with kernel and initrd for virtual machines. What
// is in them is data in this folder: package lists here, files under rootfs,
// units to mask in masked*.txt. An image is rebuilt when that data changes.
package image

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// recipe is all that determines an image, apart from the versions that the mirror
// has at the time. Delete the cache to get newer ones.
type recipe struct {
	name     string
	packages []string // on top of what is below
	// offline packages are not installed but in the machine's own repository,
	// so that installing them is part of what is tested.
	offline []string
	files   []string // folders of rootfs that are laid over the root
	scripts []string // that take part in the build
	masked  []string // lists of units
	enabled []string // units, relative to the target that wants them
	// unsigned: kernel modules are without signatures.
	unsigned bool
}

// baseRecipe is what all images begin with: the archive's packages are unpacked once.
var baseRecipe = recipe{
	name: "base",
	packages: []string{
		"systemd", "systemd-sysv", "dbus", "udev", "cloud-init", "e2fsprogs", "iproute2", "netbase",
		"ca-certificates", "kmod", "procps", "curl", "iputils-ping",
	},
}

var nspawnRecipe = recipe{
	name:    "nspawn",
	offline: []string{"nfs-kernel-server", "nfs-common"},
	files:   []string{"common", "nspawn"},
	scripts: []string{"root-extend.sh"},
	masked:  []string{"masked.txt"},
	enabled: []string{"multi-user.target.wants/systemd-networkd.service", "sysinit.target.wants/lab-disks.service"},
}

//go:embed rootfs masked.txt masked-vm.txt masked-kubelet.txt root-extend.sh layer-offer.sh layer-install.sh layer-add.sh initrd-init.sh
var data embed.FS

// key is the hash of everything that goes into the image of a system.
func (r recipe) key(s System) string {
	parts := []string{release[s], fmt.Sprintf("%#v %q", r, baseRecipe.packages)}
	err := fs.WalkDir(data, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !r.uses(path) {
			return err
		}
		content, err := data.ReadFile(path)
		parts = append(parts, path, string(content))
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return Key(parts...)
}

// uses says whether a file of this folder goes into the image.
func (r recipe) uses(path string) bool {
	if rest, ok := strings.CutPrefix(path, "rootfs/"); ok {
		folder, _, _ := strings.Cut(rest, "/")
		return slices.Contains(r.files, folder)
	}
	return slices.Contains(r.scripts, path) || slices.Contains(r.masked, path)
}

// lines of a list, without comments.
func lines(list string) ([]string, error) {
	text, err := data.ReadFile(list)
	var found []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, line)
		}
	}
	return found, err
}
