package image

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Nspawn returns the root folder for containers: to be used read-only, as the
// lower layer of an overlay.
func (c *Cache) Nspawn(ctx context.Context, s System) (string, error) {
	base, err := c.base(ctx, s)
	if err != nil {
		return "", err
	}
	r := nspawnRecipe
	return c.Get(ctx, s.Named(r.name), r.key(s), func(ctx context.Context, dir string) error {
		return r.buildRoot(ctx, s, base, dir)
	})
}

// base returns the root folder with which all images begin.
func (c *Cache) base(ctx context.Context, s System) (string, error) {
	r := baseRecipe
	return c.Get(ctx, s.Named(r.name), r.key(s), func(ctx context.Context, dir string) error {
		sources, err := Sources(ctx, release[s])
		if err != nil {
			return err
		}
		args := append([]string{"--variant=minbase", "--mode=root", "--include=" + strings.Join(r.packages, ","), release[s], dir}, sources...)
		return command(ctx, nil, "mmdebstrap", args...)
	})
}

// buildRoot makes the root file system in dir, from base.
func (r recipe) buildRoot(ctx context.Context, s System, base, dir string) error {
	if err := command(ctx, nil, "cp", "-a", base+"/.", dir); err != nil {
		return err
	}
	if err := r.run(ctx, s, dir, dir); err != nil {
		return err
	}
	if err := r.complete(dir); err != nil {
		return err
	}
	// An empty machine-id gives every machine one of its own at its first boot.
	return os.WriteFile(filepath.Join(dir, "etc/machine-id"), nil, 0o444)
}

// complete lays the recipe's files over a root, or a layer of one, masks its
// units and enables others.
func (r recipe) complete(dir string) error {
	for _, folder := range r.files {
		if err := layOver(dir, "rootfs/"+folder); err != nil {
			return err
		}
	}
	units := filepath.Join(dir, "etc/systemd/system")
	for _, list := range r.masked {
		names, err := lines(list)
		if err != nil {
			return err
		}
		for _, unit := range names {
			if err := replaceLink("/dev/null", filepath.Join(units, unit)); err != nil {
				return err
			}
		}
	}
	for _, want := range r.enabled {
		target := filepath.Join("/lib/systemd/system", filepath.Base(want))
		if _, err := os.Stat(filepath.Join(units, filepath.Base(want))); err == nil {
			target = filepath.Join("/etc/systemd/system", filepath.Base(want))
		}
		if err := replaceLink(target, filepath.Join(units, want)); err != nil {
			return err
		}
	}
	return nil
}

// layOver copies the files below a folder of rootfs over the root.
func layOver(root, folder string) error {
	files, err := fs.Sub(data, folder)
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, content, 0o644)
	})
}

func replaceLink(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// command runs a program of the host; the error carries the end of what it printed.
func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = out[max(0, len(out)-2000):]
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
