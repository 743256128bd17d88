// Package software has steps install what they need from the distribution, each in
// the same way: through the document's proxy, never beside another who is installing,
// and with the same reasons where it cannot be had.
package software

import (
	"context"
	"errors"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// Install is the action, of the given group, that installs what is missing of the
// needs; none where all is there.
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

// Problem says in words of conditions what a package manager said.
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

// ProxyOf is the document's proxy for downloads, the zero value for none.
func ProxyOf(desired *api.NodeConfig) host.Proxy {
	if desired.Proxy == nil {
		return host.Proxy{}
	}
	return host.Proxy{HTTP: desired.Proxy.HTTP, HTTPS: desired.Proxy.HTTPS, NoProxy: desired.Proxy.NoProxy}
}
