package host

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// apt is the package manager of Debian and Ubuntu.
type apt struct {
	family
	lock string
	// updated is when the package lists were last fetched without an error.
	updated time.Time
}

// updateEvery is the least time between a successful fetch of the lists and the next fetch. A
// package that does not exist thus does not cause a fetch on every pass.
const updateEvery = 10 * time.Minute

func (a *apt) Missing(ctx context.Context, needs ...Software) ([]Software, error) {
	return a.missing(ctx, needs, func(ctx context.Context, names []string) (map[string]bool, error) {
		// Its exit code is 1 when it does not know one of the packages.
		result, err := a.run.Run(ctx, dpkgQueryCommand(names...))
		if err != nil && result.Code != 1 {
			return nil, err
		}
		found := map[string]bool{}
		for line := range strings.Lines(result.Stdout) {
			name, status, _ := strings.Cut(strings.TrimSpace(line), " ")
			found[name] = strings.HasSuffix(strings.TrimSpace(status), "i") && len(strings.TrimSpace(status)) == 2
		}
		return found, nil
	})
}

func (a *apt) Install(ctx context.Context, proxy Proxy, needs ...Software) error {
	missing, err := a.Missing(ctx, needs...)
	if err != nil || len(missing) == 0 {
		return err
	}
	if pid := lockHolder(a.lock); pid != 0 {
		return &BusyError{Detail: "process " + strconv.Itoa(pid) + " (" + programOf(pid) + ") has " + a.lock}
	}
	names := a.packagesOf(missing)
	err = a.install(ctx, names, proxy)
	if interruptedDpkg(err) {
		failed := a.do(ctx, dpkgRepairCommand(), proxy)
		err = a.installAfter(ctx, "dpkg --configure -a", failed, names, proxy)
	}
	if staleLists(err) && time.Since(a.updated) > updateEvery {
		failed := a.do(ctx, aptUpdateCommand(), proxy)
		if failed == nil {
			a.updated = time.Now()
		}
		err = a.installAfter(ctx, "apt-get update", failed, names, proxy)
	}
	if brokenPackages(err) {
		failed := a.do(ctx, aptRepairCommand(), proxy)
		err = a.installAfter(ctx, "apt-get install --fix-broken", failed, names, proxy)
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(said(err), "Could not get lock"), strings.Contains(said(err), "is locked by another process"):
		return &BusyError{Detail: said(err)}
	default:
		return &UnavailableError{Package: strings.Join(names, ", "), Detail: said(err)}
	}
}

// installAfter installs after a command that was to make it possible, also if that has failed: an
// update fails if one source does not answer, and the lists of the others are there. If the
// installation fails too, the message of the command stands beside its own.
func (a *apt) installAfter(ctx context.Context, command string, failed error, names []string, proxy Proxy) error {
	err := a.install(ctx, names, proxy)
	if err == nil || failed == nil {
		return err
	}
	return errors.New(said(err) + "; before, " + command + " failed: " + said(failed))
}

// companions are packages that another one only recommends and that it is of no use without:
// no container starts under a kernel with AppArmor if its program is not there, and in
// Debian 13 docker-cli has the command docker.
var companions = map[string][]string{"docker.io": {"apparmor", "docker-cli"}}

// install installs packages, and their companions if they recommend them.
func (a *apt) install(ctx context.Context, names []string, proxy Proxy) error {
	all := slices.Clone(names)
	for _, name := range names {
		if companions[name] == nil {
			continue
		}
		// It fails if the lists do not know the package. Then apt-get says so too.
		related, err := a.run.Run(ctx, aptRelatedCommand(name))
		for _, companion := range companions[name] {
			if err == nil && recommends(related.Stdout, companion) {
				all = append(all, companion)
			}
		}
	}
	return a.do(ctx, aptInstallCommand(all...), proxy)
}

// recommends reports whether a package is recommended, by the output of aptRelatedCommand. One
// that no source has is in angle brackets there.
func recommends(related, name string) bool {
	for line := range strings.Lines(related) {
		if kind, found := strings.CutSuffix(strings.TrimSpace(line), " "+name); found && strings.TrimLeft(kind, "|") == "Recommends:" {
			return true
		}
	}
	return false
}

func (a *apt) do(ctx context.Context, c Command, proxy Proxy) error {
	_, err := a.run.Run(ctx, through(proxy, c))
	return err
}

func interruptedDpkg(err error) bool {
	return err != nil && strings.Contains(said(err), "dpkg was interrupted")
}

// brokenPackages reports whether packages that are on the machine lack others, as they do when
// dpkg is killed between the two. Then apt-get installs nothing that is named to it.
func brokenPackages(err error) bool {
	return err != nil && strings.Contains(said(err), "--fix-broken install")
}

// staleLists reports whether the lists may be too old: they do not know the package or one
// that it needs, or name a version that the mirror no longer has.
func staleLists(err error) bool {
	if err == nil {
		return false
	}
	text := said(err)
	return slices.ContainsFunc([]string{
		"Unable to locate package", "has no installation candidate", "404  Not Found", "Unable to fetch some archives",
		"unmet dependencies", "Couldn't find any package", "but I can't find an archive for it",
	}, func(s string) bool { return strings.Contains(text, s) })
}

// lockHolder returns the process that has dpkg's lock, 0 for none. It does not take the
// lock.
func lockHolder(path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

func programOf(pid int) string {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if errors.Is(err, os.ErrNotExist) || err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(name))
}
