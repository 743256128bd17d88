package openstack

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// ErrNotBuilt says that the cache does not have the images of this version.
var ErrNotBuilt = errors.New("OpenStack is not built: run `make openstack`, which takes some minutes, once")

// The two images. The first takes minutes to install and changes rarely; the second is a
// layer over it, with the configuration and with databases that know their tables, the
// catalog, an image and the networks.
const (
	rootImage  = "openstack"
	readyImage = "openstack-ready"
)

const suite = "bookworm" // has OpenStack's release Zed

//go:embed packages.txt no-services.sh
var recipe embed.FS

//go:embed all:rootfs
var rootfs embed.FS

// images are folders of the cache that no other process removes until close.
type images struct {
	root, ready string
	cache       *image.Cache
}

func (i *images) close() error { return i.cache.Close() }

// find returns the images that Build has left in a cache, or ErrNotBuilt.
func find(cache string) (*images, error) {
	open, err := image.OpenCache(cache, func(string, ...any) {})
	if err != nil {
		return nil, err
	}
	i := &images{cache: open}
	for _, one := range []struct {
		name, key string
		path      *string
	}{{rootImage, rootKey(), &i.root}, {readyImage, readyKey(), &i.ready}} {
		path, found, err := open.Find(one.name, one.key)
		if err == nil && !found {
			err = ErrNotBuilt
		}
		if err != nil {
			return nil, errors.Join(err, open.Close())
		}
		*one.path = path
	}
	return i, nil
}

// rootKey changes with everything that makes another root, apart from the versions that
// the mirror has at the time. Delete the cache to get newer ones.
func rootKey() string {
	return image.Key(append(content(recipe), suite, fmt.Sprintf("%q", bootstrapArguments))...)
}

// readyKey changes with the configuration, and with what is put into the databases.
func readyKey() string {
	return image.Key(append(content(rootfs), rootKey())...)
}

// content is the paths and the content of embedded files.
func content(files fs.FS) []string {
	var parts []string
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		parts = append(parts, path, string(text))
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return parts
}

// packages are the lines of packages.txt.
func packages() []string {
	text, err := recipe.ReadFile("packages.txt")
	if err != nil {
		panic(err) // what is embedded can be read
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	return names
}

// layOver copies the files of rootfs over a root. Those in a folder for programs can be run.
func layOver(root string) error {
	return fs.WalkDir(rootfs, "rootfs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := rootfs.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(root, strings.TrimPrefix(path, "rootfs"))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(path, "rootfs/usr/local/lib/") {
			mode = 0o755
		}
		return os.WriteFile(to, text, mode)
	})
}
