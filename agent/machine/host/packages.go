package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// packages chooses the distribution's package manager.
func packages(paths Paths, run *Runner) Packages {
	if !installed("apt-get") && installed("dnf") {
		return &dnf{family: family{run: run, marks: paths.RPMDatabases, names: redHatNames}}
	}
	return &apt{family: family{run: run, marks: []string{paths.DpkgStatus}, names: debianNames}, lock: paths.DpkgLock}
}

var (
	debianNames = map[Software][]string{
		Ext4Tools: {"e2fsprogs"}, NFSServer: {"nfs-kernel-server"}, NFSClient: {"nfs-common"}, ContainerEngine: {"docker.io"},
		Keepalived: {"keepalived", "curl"},
	}
	// Fedora has moby-engine. RHEL 9 and its rebuilds have it only if the operator has added
	// a package repository with it. Each of them has curl, from one of two packages that exclude
	// each other.
	redHatNames = map[Software][]string{
		Ext4Tools: {"e2fsprogs"}, NFSServer: {"nfs-utils"}, NFSClient: {"nfs-utils"}, ContainerEngine: {"moby-engine"},
		Keepalived: {"keepalived"},
	}
)

// family is what the package managers have in common.
type family struct {
	run   *Runner
	names map[Software][]string
	// marks are files that change when any package does.
	marks []string

	mu sync.Mutex
	// complete is the software that was installed when mark returned seen.
	complete []Software
	seen     string
}

func (f *family) Name(need Software) string { return strings.Join(f.names[need], ", ") }

// packagesOf returns the packages for the needs, each once.
func (f *family) packagesOf(needs []Software) []string {
	var all []string
	for _, need := range needs {
		all = append(all, f.names[need]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// missing calls installedOf for the packages, unless all of them were installed before and
// the package database has not changed since.
func (f *family) missing(ctx context.Context, needs []Software, installedOf func(context.Context, []string) (map[string]bool, error)) ([]Software, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mark := f.mark(); mark == "" || mark != f.seen {
		f.complete, f.seen = nil, mark
	}
	var unknown, missing []Software
	for _, need := range needs {
		if !slices.Contains(f.complete, need) {
			unknown = append(unknown, need)
		}
	}
	if len(unknown) == 0 {
		return nil, nil
	}
	found, err := installedOf(ctx, f.packagesOf(unknown))
	if err != nil {
		return nil, err
	}
	for _, need := range unknown {
		if slices.ContainsFunc(f.names[need], func(name string) bool { return !found[name] }) {
			missing = append(missing, need)
		} else {
			f.complete = append(f.complete, need)
		}
	}
	return missing, nil
}

// mark identifies the state of the package database, "" if there is none.
func (f *family) mark() string {
	var marks []string
	for _, path := range f.marks {
		if info, err := os.Stat(path); err == nil {
			marks = append(marks, fmt.Sprintf("%s %d %d", path, info.Size(), info.ModTime().UnixNano()))
		}
	}
	return strings.Join(marks, "\n")
}

// through gives one command the proxy in its environment. A proxy may contain a password, and
// /proc shows the environment only to the process's owner and root.
func through(p Proxy, c Command) Command {
	for name, value := range map[string]string{"http_proxy": p.HTTP, "https_proxy": p.HTTPS, "no_proxy": p.NoProxy} {
		if value != "" {
			c.Env = append(slices.Clip(c.Env), name+"="+value, strings.ToUpper(name)+"="+value)
		}
	}
	// Package managers quote a proxy that they cannot reach.
	c.Secrets = append(c.Secrets, p.Secrets()...)
	return c
}

// Secrets are the parts of a proxy that no log or message may repeat: it may contain a password.
func (p Proxy) Secrets() []string {
	var all []string
	for _, value := range []string{p.HTTP, p.HTTPS} {
		if value == "" {
			continue
		}
		all = append(all, value)
		if credentials, _, found := strings.Cut(value[strings.LastIndex(value, "/")+1:], "@"); found {
			all = append(all, credentials)
			if _, password, found := strings.Cut(credentials, ":"); found {
				all = append(all, password)
			}
		}
	}
	return all
}

// said is the program's output, or why it did not run.
func said(err error) string {
	var failed *CommandError
	if errors.As(err, &failed) && failed.Output != "" {
		return failed.Output
	}
	return err.Error()
}
