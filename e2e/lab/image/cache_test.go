package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func openCache(t *testing.T, dir string) *Cache {
	t.Helper()
	c, err := OpenCache(dir, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func letGo(t *testing.T, c *Cache) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// fill builds an image that consists of one file.
func fill(_ context.Context, dir string) error {
	return os.WriteFile(filepath.Join(dir, "content"), []byte("x"), 0o644)
}

// Caches of the same folder stand for processes here: a flock belongs to the
// open file, not to the process.
func TestOneOfManyBuilds(t *testing.T) {
	dir := t.TempDir()
	var builds atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		c := openCache(t, dir)
		all.Go(func() {
			path, err := c.Get(t.Context(), "root", "v1", func(ctx context.Context, dir string) error {
				builds.Add(1)
				return fill(ctx, dir)
			})
			if err != nil || !there(filepath.Join(path, "content")) {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	all.Wait()
	if builds.Load() != 1 {
		t.Errorf("built %d times", builds.Load())
	}
}

// What has been found is in use, as what Get returns; nothing is built.
func TestFindBuildsNothing(t *testing.T) {
	dir := t.TempDir()
	finder, builder := openCache(t, dir), openCache(t, dir)
	if path, found, err := finder.Find("root", "v1"); found || err != nil {
		t.Errorf("an image that is not there: %s, %v, %v", path, found, err)
	}
	built, err := builder.Get(t.Context(), "root", "v1", fill)
	if err != nil {
		t.Fatal(err)
	}
	letGo(t, builder)
	if path, found, err := finder.Find("root", "v1"); path != built || !found || err != nil {
		t.Errorf("an image that is there: %s, %v, %v", path, found, err)
	}
	if _, err := builder.Get(t.Context(), "root", "v2", fill); err != nil || !there(built) {
		t.Errorf("the image that was found is gone (%v)", err)
	}
}

// Find returns at once while another process builds.
func TestFindDoesNotWaitForABuild(t *testing.T) {
	dir := t.TempDir()
	_, err := openCache(t, dir).Get(t.Context(), "root", "v1", func(ctx context.Context, scratch string) error {
		if path, found, err := openCache(t, dir).Find("root", "v1"); found || err != nil {
			t.Errorf("an image that is being built: %s, %v, %v", path, found, err)
		}
		return fill(ctx, scratch)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAFailedBuildLeavesNothingAndIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, dir)
	broken := errors.New("the mirror is away")
	_, err := c.Get(t.Context(), "root", "v1", func(ctx context.Context, dir string) error {
		return errors.Join(fill(ctx, dir), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*/*")); len(found) > 0 {
		t.Errorf("left %q", found)
	}
	if _, err := c.Get(t.Context(), "root", "v1", fill); err != nil {
		t.Error(err)
	}
}

func TestABuildThatWasCutOffIsStartedAfresh(t *testing.T) {
	dir := t.TempDir()
	half := filepath.Join(dir, "root-v1.building", "half")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := openCache(t, dir).Get(t.Context(), "root", "v1", fill)
	if err != nil || there(filepath.Join(path, "half")) {
		t.Errorf("%s holds the remains of the first try, %v", path, err)
	}
}

func TestOnlyUnusedOldVersionsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	get := func(c *Cache, name, version string) string {
		path, err := c.Get(t.Context(), name, version, fill)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	inUse := get(openCache(t, dir), "root", "v1")
	done := openCache(t, dir)
	unused := get(done, "root", "v2")
	letGo(t, done)
	other := get(done, "root-like", "v1") // another image, whose name begins the same
	letGo(t, done)

	newest := get(openCache(t, dir), "root", "v3")
	for path, want := range map[string]bool{inUse: true, unused: false, other: true, newest: true} {
		if there(path) != want {
			t.Errorf("%s: there %v, want %v", filepath.Base(path), there(path), want)
		}
	}
}

func TestWaitingForABuildEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	building, finish := make(chan struct{}), make(chan struct{})
	slow := openCache(t, dir)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := slow.Get(t.Context(), "root", "v1", func(ctx context.Context, dir string) error {
			close(building)
			<-finish
			return fill(ctx, dir)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-building
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := openCache(t, dir).Get(ctx, "root", "v1", fill); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(finish)
	all.Wait()
}

// Every file that the recipes name is there, and each change of one makes
// another image.
func TestRecipesNameExistingFiles(t *testing.T) {
	for _, r := range []recipe{baseRecipe, nspawnRecipe, vmRecipe, offeredRecipe(Debian12), installedRecipe(Debian12), kubeletRecipe} {
		for _, path := range r.scripts {
			if _, err := data.ReadFile(path); err != nil {
				t.Error(err)
			}
		}
		for _, folder := range r.files {
			if _, err := data.ReadDir("rootfs/" + folder); err != nil {
				t.Error(err)
			}
		}
		for _, list := range r.masked {
			if units, err := lines(list); err != nil || len(units) == 0 {
				t.Errorf("%s: %q, %v", list, units, err)
			}
		}
		before := r.key(Debian12)
		r.packages = append([]string{"another"}, r.packages...)
		if r.key(Debian12) == before {
			t.Errorf("%s: one more package, the same key", r.name)
		}
		if r.key(Debian12) == r.key(Debian13) {
			t.Errorf("%s: two systems, the same key", r.name)
		}
	}
	if nspawnRecipe.key(Debian12) == vmRecipe.key(Debian12) {
		t.Error("both recipes have the same key")
	}
}
