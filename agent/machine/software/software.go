// Package software installs what the steps need from the distribution, always in the same
// way: through the document's proxy, never at the same time as another installation, and
// with the same reasons if it fails.
package software

import (
	"context"
	"errors"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Install is the action, in the given group, that installs what is missing; none if
// everything is installed.
func Install(ctx context.Context, machine *host.Host, proxy host.Proxy, group string, needs ...host.Software) ([]converge.Action, error) {
	missing, err := machine.Packages.Missing(ctx, needs...)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	var names []string
	for _, need := range missing {
		names = append(names, machine.Packages.Name(need))
	}
	return []converge.Action{{
		Summary: "install " + strings.Join(names, ", "), Group: group,
		Do: func(ctx context.Context) error {
			return Problem(machine.Packages.Install(ctx, proxy, missing...))
		},
	}}, nil
}

// Problem turns a package manager's error into a condition's reason.
func Problem(err error) error {
	var busy *host.BusyError
	var unavailable *host.UnavailableError
	switch {
	case errors.As(err, &busy):
		return converge.Wait(api.ReasonPackageManagerBusy, "%v", err)
	case errors.As(err, &unavailable):
		return converge.Wait(api.ReasonPackageUnavailable, "%v", err)
	}
	return err
}

// ProxyOf is the document's proxy for downloads, the zero value for none. The controller's plan
// chooses it.
func ProxyOf(desired *api.NodeConfig) host.Proxy {
	if desired.Proxy == nil {
		return host.Proxy{}
	}
	return host.Proxy{HTTP: desired.Proxy.HTTP, HTTPS: desired.Proxy.HTTPS, NoProxy: desired.Proxy.NoProxy}
}
