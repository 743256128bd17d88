package mutations

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a copy of the files of a checkout, which mutations are applied to, so that
// none ever reaches the checkout. Its path is the same in each run, because Go's build
// cache knows packages by their folder.
type tree struct{ dir string }

// copyTree copies the checkout.
func copyTree(ctx context.Context, checkout string) (*tree, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(checkout))
	t := &tree{filepath.Join(cache, "nodehitch-mutations", hex.EncodeToString(sum[:6]))}
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

// apply puts the mutation into the tree, takeBack takes it out again.
func (t *tree) apply(ctx context.Context, m Mutation) error { return Apply(ctx, t.dir, m) }

func (t *tree) takeBack(ctx context.Context, m Mutation) error {
	return gitApply(ctx, t.dir, m, "--reverse")
}

// Apply applies a patch to the files in dir.
func Apply(ctx context.Context, dir string, m Mutation) error { return gitApply(ctx, dir, m) }

// Applies says whether the mutation can be applied to the files in dir, and if not, what
// to do.
func Applies(ctx context.Context, dir string, m Mutation) error {
	return gitApply(ctx, dir, m, "--check")
}

func gitApply(ctx context.Context, dir string, m Mutation, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	cmd.Dir = dir
	// In a folder of a repository git would take paths from the root of that.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	cmd.Stdin = bytes.NewReader(m.Patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s.patch no longer applies: its code has changed. Break the same thing in the new code by hand and replace the diff "+
			"below the header by `git diff -U1`; if there is nothing left to break, delete the file (%w: %s)", m.Name, err, bytes.TrimSpace(out))
	}
	return nil
}
