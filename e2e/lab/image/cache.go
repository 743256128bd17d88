package image

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// DefaultCache is where images are kept unless $NODEHITCH_CACHE says otherwise.
const DefaultCache = "/var/cache/nodehitch"

// Cache is a folder of built images, each under <name>-<hash of its recipe>.
// Several processes may use one cache: an image is built by one of them, under
// a lock, in a scratch folder that is renamed when it is complete; and as long
// as a Cache is open, no other process prunes what it has handed out.
type Cache struct {
	dir string
	log func(format string, args ...any)

	mu    sync.Mutex
	inUse map[string]*os.File // path → shared lock
}

// OpenCache opens the cache in dir; empty means $NODEHITCH_CACHE or DefaultCache.
// Log receives progress, one line per call.
func OpenCache(dir string, log func(format string, args ...any)) (*Cache, error) {
	if dir == "" {
		dir = os.Getenv("NODEHITCH_CACHE")
	}
	if dir == "" {
		dir = DefaultCache
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the image cache: %w", err)
	}
	return &Cache{dir: dir, log: log, inUse: map[string]*os.File{}}, nil
}

// Close lets go of the images: another process may prune them from now on.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for path, lock := range c.inUse {
		errs = append(errs, lock.Close())
		delete(c.inUse, path)
	}
	return errors.Join(errs...)
}

// Get returns the folder of the image with this name and key, and builds it
// with build, into a folder that exists and is empty, when it is not there.
// Then it removes older versions of the image that are not in use.
func (c *Cache) Get(ctx context.Context, name, key string, build func(ctx context.Context, dir string) error) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := filepath.Join(c.dir, name+"-"+key)
	if c.inUse[path] != nil {
		return path, nil
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	if err := c.ensure(ctx, lock, path, name, build); err != nil {
		lock.Close()
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	c.inUse[path] = lock
	return path, nil
}

// Find is Get for an image that is not to be built now: found says whether it is
// there. It does not wait for a process that may be building it.
func (c *Cache) Find(name, key string) (path string, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path = filepath.Join(c.dir, name+"-"+key)
	if c.inUse[path] != nil {
		return path, true, nil
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", false, fmt.Errorf("image %s: %w", name, err)
	}
	if !tryFlock(lock, syscall.LOCK_SH) || !there(path) {
		return "", false, lock.Close()
	}
	c.inUse[path] = lock
	return path, true, nil
}

// ensure leaves the image at path and a shared lock on lock. If there is no image it tries
// to get the exclusive lock, and releases its shared one if another process has one too:
// that may be the builder, or one that waits as well.
func (c *Cache) ensure(ctx context.Context, lock *os.File, path, name string, build func(context.Context, string) error) error {
	for {
		if tryFlock(lock, syscall.LOCK_SH) {
			if there(path) {
				return nil
			}
			if tryFlock(lock, syscall.LOCK_EX) {
				if there(path) {
					continue // another process built it between the two locks
				}
				if err := c.build(ctx, path, name, build); err != nil {
					return err
				}
				c.prune(name, path)
				continue // for the shared lock: in between, another process may prune
			}
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
				return err
			}
		}
		// So not all try at the same moment.
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for another process that builds it: %w", context.Cause(ctx))
		case <-time.After(50*time.Millisecond + rand.N(100*time.Millisecond)):
		}
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func tryFlock(f *os.File, how int) bool {
	return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) == nil
}

func (c *Cache) build(ctx context.Context, path, name string, build func(context.Context, string) error) error {
	began := time.Now()
	c.log("image %s: building, once for this version", name)
	scratch := path + ".building"
	if err := os.RemoveAll(scratch); err != nil { // of a build that was cut off
		return err
	}
	// Readable for others: as the root of a container it has to be.
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return err
	}
	if err := build(ctx, scratch); err != nil {
		return errors.Join(err, os.RemoveAll(scratch))
	}
	if err := os.Rename(scratch, path); err != nil {
		return err
	}
	c.log("image %s: built in %.1f s", name, time.Since(began).Seconds())
	return nil
}

// prune removes the other versions of an image, unless a lock says that they
// are in use or being built.
func (c *Cache) prune(name, keep string) {
	locks, _ := filepath.Glob(filepath.Join(c.dir, name+"-*.lock"))
	for _, path := range locks {
		old := strings.TrimSuffix(path, ".lock")
		if old == keep || strings.Contains(strings.TrimPrefix(old, filepath.Join(c.dir, name+"-")), "-") {
			continue
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if there(old) && tryFlock(lock, syscall.LOCK_EX) {
			c.log("image %s: removing an old version, %s", name, filepath.Base(old))
			// The lock file stays: another process may wait for it.
			if err := errors.Join(os.RemoveAll(old+".building"), os.RemoveAll(old)); err != nil {
				c.log("image %s: %v", name, err)
			}
		}
		lock.Close()
	}
}
