package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// ErrNotBuilt says that the cache does not have the programs of this version.
var ErrNotBuilt = errors.New("the programs of Kubernetes are not built: run `make kube`, which takes some minutes, once")

// Binaries is the folder of the built programs, which no other process removes
// until Close.
type Binaries struct {
	Dir   string
	cache *image.Cache
}

// ErrNoEtcd says that the cache does not have etcd.
var ErrNoEtcd = errors.New("etcd is not built: run `make etcd`, which takes a minute, once")

// Find returns the programs that Build has left in a cache, or ErrNotBuilt.
func Find(cache string) (*Binaries, error) { return allPrograms.find(cache, ErrNotBuilt) }

// FindEtcd returns those that Build or BuildEtcd has left in a cache, of which it is to be
// used for etcd alone, or ErrNoEtcd.
func FindEtcd(cache string) (*Binaries, error) {
	found, err := allPrograms.find(cache, ErrNoEtcd)
	if errors.Is(err, ErrNoEtcd) {
		return etcdAlone.find(cache, ErrNoEtcd)
	}
	return found, err
}

func (s set) find(cache string, notBuilt error) (*Binaries, error) {
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	return find(cache, s.name, key, notBuilt)
}

// find returns what was built into a cache by that name.
func find(cache, name, key string, notBuilt error) (*Binaries, error) {
	open, err := image.OpenCache(cache, func(string, ...any) {})
	if err != nil {
		return nil, err
	}
	dir, found, err := open.Find(name, key)
	if err == nil && !found {
		err = notBuilt
	}
	if err != nil {
		return nil, errors.Join(err, open.Close())
	}
	return &Binaries{Dir: dir, cache: open}, nil
}

// Close lets go of the programs.
func (b *Binaries) Close() error { return b.cache.Close() }

// moduleDir is the folder whose go.mod names all versions.
func (s set) moduleDir() string { return filepath.Join(sourcetree.Path("e2e/kube"), s.module) }

// key changes with everything that makes other programs, apart from the Go version.
func (s set) key() (string, error) {
	parts := []string{runtime.GOOS, runtime.GOARCH, fmt.Sprintf("%q", s.programs), fmt.Sprintf("%q", buildArguments)}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(s.moduleDir(), name))
		if err != nil {
			return "", err
		}
		parts = append(parts, string(content))
	}
	return image.Key(parts...), nil
}
