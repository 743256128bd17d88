package openstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// bootstrapArguments leave out documentation and other unused files.
var bootstrapArguments = []string{
	"--variant=minbase", "--mode=root",
	`--aptopt=Acquire::Languages "none"`, `--aptopt=APT::Install-Recommends "false"`,
	"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
}

// Build builds the images into a cache (empty means $NODEHITCH_CACHE or
// image.DefaultCache) unless they are there: some minutes, most of them for Debian's
// packages. Log receives progress, one line per call.
func Build(ctx context.Context, cache string, log func(format string, args ...any)) (err error) {
	open, err := image.OpenCache(cache, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	root, err := open.Get(ctx, rootImage, rootKey(), bootstrap)
	if err != nil {
		return err
	}
	_, err = open.Get(ctx, readyImage, readyKey(), func(ctx context.Context, dir string) error {
		return prepare(ctx, cache, root, dir, log)
	})
	return err
}

// bootstrap installs the packages into dir.
func bootstrap(ctx context.Context, dir string) error {
	script, err := recipe.ReadFile("no-services.sh")
	if err != nil {
		return err
	}
	sources, err := image.Sources(ctx, suite)
	if err != nil {
		return err
	}
	hook := dir + ".no-services.sh"
	if err := os.WriteFile(hook, script, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.Remove(hook) }()
	argv := append([]string{"--include=" + strings.Join(packages(), ","), "--essential-hook=" + hook}, bootstrapArguments...)
	argv = append(append(argv, suite, dir), sources...)
	out, err := exec.CommandContext(ctx, "mmdebstrap", argv...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mmdebstrap: %w: %s", err, bytes.TrimSpace(out[max(0, len(out)-2000):]))
	}
	return nil
}

// prepare starts a cloud from nothing in a lab of its own, fills it, and keeps as dir what
// that has changed in the root.
func prepare(ctx context.Context, cache, root, dir string, log func(string, ...any)) (err error) {
	l, err := lab.Open(ctx, lab.Options{Cache: cache, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	own, err := image.OpenCache(cache, log)
	if err != nil {
		return err
	}
	c := newCloud(l, Options{Cache: cache, Log: log}, &images{root: root, cache: own})
	defer func() { err = errors.Join(err, c.Close()) }()
	upper := filepath.Join(c.dir, "upper")
	if err := layOver(upper); err != nil {
		return err
	}
	if err := c.fill(ctx, root); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	return copyInto(ctx, upper, dir)
}

// settle ends all of it, the database in order, so that the next start has nothing to
// repair and takes no service for one that is up.
func (c *Cloud) settle(ctx context.Context) error {
	database := c.Service("mariadb")
	for _, s := range c.services {
		if s == database {
			continue
		}
		if err := s.Kill(ctx); err != nil {
			return err
		}
	}
	if _, err := c.root.run(ctx, "/usr/local/lib/lab/forget.sh"); err != nil {
		return err
	}
	if err := database.stopInOrder(ctx); err != nil {
		return err
	}
	return c.root.end()
}

// fill takes the services through their first start.
func (c *Cloud) fill(ctx context.Context, root string) error {
	if err := c.enter(ctx, root); err != nil {
		return err
	}
	if err := c.Service("mariadb").Start(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		script string
		then   []string
	}{
		{"databases.sh", append([]string{"rabbitmq"}, firstStage...)},
		{"catalog.py", secondStage},
		{"content.py", nil},
	} {
		began := time.Now()
		if _, err := c.root.run(ctx, "/usr/local/lib/lab/"+step.script); err != nil {
			return err
		}
		c.o.Log("OpenStack: %s took %.1f s", step.script, time.Since(began).Seconds())
		if err := c.launch(step.then...); err != nil {
			return err
		}
		for _, name := range step.then {
			if err := c.Service(name).waitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyInto copies the content of a folder, which may be on another file system, with all
// that overlay has noted in it.
func copyInto(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "--archive", from+"/.", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("keeping what was prepared: %w: %s", err, out)
	}
	return nil
}
