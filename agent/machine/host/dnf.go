package host

import (
	"context"
	"strings"
	"time"
)

// dnf is the package manager of the RHEL family.
type dnf struct {
	family
	// refreshed is when the repositories' metadata was last fetched without need.
	refreshed time.Time
}

func (d *dnf) Missing(ctx context.Context, needs ...Software) ([]Software, error) {
	return d.missing(ctx, needs, func(ctx context.Context, names []string) (map[string]bool, error) {
		// Its exit code is the number of packages that are not installed.
		result, err := d.run.Run(ctx, rpmQueryCommand(names...))
		if err != nil && (result.Code < 0 || result.Code > len(names)) {
			return nil, err
		}
		found := map[string]bool{}
		for line := range strings.Lines(result.Stdout) {
			found[strings.TrimSpace(line)] = true
		}
		return found, nil
	})
}

// dnfLocked is dnf's exit code with exit_on_lock.
const dnfLocked = 200

func (d *dnf) Install(ctx context.Context, proxy Proxy, needs ...Software) error {
	missing, err := d.Missing(ctx, needs...)
	if err != nil || len(missing) == 0 {
		return err
	}
	names := d.packagesOf(missing)
	result, err := d.run.Run(ctx, through(proxy, dnfInstallCommand(names...)))
	// dnf believes its copy of the metadata for two days.
	if err != nil && result.Code != dnfLocked && time.Since(d.refreshed) > updateEvery {
		d.refreshed = time.Now()
		result, err = d.run.Run(ctx, through(proxy, refreshing(dnfInstallCommand(names...))))
	}
	switch {
	case err == nil:
		return nil
	case result.Code == dnfLocked:
		return &BusyError{Detail: said(err)}
	default:
		return &UnavailableError{Package: strings.Join(names, ", "), Detail: said(err)}
	}
}
