package breaks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a copy of the files of a checkout, which breaks are made in, so that none ever
// reaches the checkout. Its path is the same in each run, because Go's build cache knows
// packages by their folder. (An overlay of go test would not reach Python, nor programs that
// a test starts.)
type tree struct{ dir string }

// copyTree copies the checkout.
func copyTree(ctx context.Context, checkout string) (*tree, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(checkout))
	t := &tree{filepath.Join(cache, "nodehitch-breaks", hex.EncodeToString(sum[:6]))}
	if err := os.RemoveAll(t.dir); err != nil {
		return nil, err
	}
	return t, Copy(ctx, checkout, t.dir)
}

// Copy copies the files of a checkout to dir: those that git knows, and those that it
// does not ignore.
func Copy(ctx context.Context, checkout, dir string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = checkout
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing the files of %s: %w", checkout, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(checkout, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if os.IsNotExist(err) {
		return nil // removed from the checkout, and not from the index yet
	}
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

func (t *tree) remove() error { return os.RemoveAll(t.dir) }

// make makes the break in the tree, and returns how it is taken back.
func (t *tree) make(b Break) (takeBack func() error, err error) {
	changed, err := b.files(t.dir)
	if err != nil {
		return nil, err
	}
	takeBack = func() (err error) {
		for path, file := range changed {
			err = errors.Join(err, t.write(path, file.before))
		}
		return err
	}
	for path, file := range changed {
		if err := t.write(path, file.after); err != nil {
			return nil, errors.Join(err, takeBack())
		}
	}
	return takeBack, nil
}

// write replaces the content of a file, and keeps its mode.
func (t *tree) write(path, content string) error {
	return os.WriteFile(filepath.Join(t.dir, path), []byte(content), 0o600)
}
