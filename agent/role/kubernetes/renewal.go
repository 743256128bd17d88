package kubernetes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// renewalGroup is the group of the actions of a renewal: one component at a time is away.
const renewalGroup = "certificates"

// restartLimit is how long kubelet may take to start a component again, and that to be healthy.
const restartLimit = 3 * time.Minute

// drainSeconds is how long an API server may answer the requests that it has. It takes no new
// ones by then, and would go on for a minute while somebody watches objects by it. It ends at once
// if it is asked again.
const drainSeconds = 5

func (s *controlPlaneStep) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// renewal plans, in this master's turn, that its certificates are renewed, and that what has read
// the old ones starts again. What was cut off after the renewal keeps the master due, as its
// processes are older than its certificates. So the restarts that are left have a turn too, and
// never take place on two masters at a time, even if a person has renewed all by hand. A turn is
// used only while the controller confirms it: after three poll intervals of silence it is another
// master's.
func (s *controlPlaneStep) renewal(desired *api.NodeConfig, c kubeadm.Certificates) (actions []converge.Action) {
	if !desired.ControlPlane.RenewCertificates {
		return nil
	}
	restart := c.Outdated
	if c.Due {
		restart = c.Running
		actions = append(actions, converge.Action{
			Summary: "renew the certificates of the control plane (kubeadm certs renew all)", Group: renewalGroup, ClusterScoped: true, Do: s.Kubeadm.Renew,
		})
	}
	for _, p := range restart {
		actions = append(actions, converge.Action{
			Summary: "restart " + p.Program + " with the renewed certificates", Group: renewalGroup, ClusterScoped: true,
			Do: func(ctx context.Context) error { return s.restart(ctx, desired, p.Program) },
		})
	}
	return actions
}

// restart ends a component that is older than its certificates, and waits until it is back.
func (s *controlPlaneStep) restart(ctx context.Context, desired *api.NodeConfig, component string) error {
	c, err := s.Kubeadm.Certificates(s.now())
	i := slices.IndexFunc(c.Outdated, func(p host.Process) bool { return p.Program == component })
	if i < 0 || err != nil { // it has started again by itself
		return err
	}
	if component == kubeadm.Etcd {
		if err := s.othersServe(ctx); err != nil {
			return err
		}
	}
	if component == kubeadm.Etcd || component == kubeadm.APIServer { // without either, the API server is not ready
		if err := s.Kubeadm.PassAddressOn(ctx, desired); err != nil {
			return err
		}
	}
	if err := s.Host.Processes.End(c.Outdated[i]); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	for seconds := 0; ; seconds++ {
		err := s.isBack(ctx, desired, component)
		if err == nil {
			return nil
		}
		if component == kubeadm.APIServer && seconds == drainSeconds {
			if err := s.Host.Processes.End(c.Outdated[i]); err != nil {
				return err
			}
		}
		if sleep.For(ctx, time.Second, nil) != nil {
			return converge.Wait(api.ReasonRenewalFailed, "%s was ended so that kubelet starts it again with the renewed certificates, and is not back: %s", component, said(err))
		}
	}
}

// isBack returns nil if a component runs with the certificates that it has now, and is healthy.
func (s *controlPlaneStep) isBack(ctx context.Context, desired *api.NodeConfig, component string) error {
	c, err := s.Kubeadm.Certificates(s.now())
	is := func(p host.Process) bool { return p.Program == component }
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(c.Running, is):
		return errors.New("it does not run")
	case slices.ContainsFunc(c.Outdated, is):
		return errors.New("its process has not ended")
	case component == kubeadm.Etcd:
		return s.etcdServes(ctx)
	case component == kubeadm.APIServer:
		at, err := s.apiServer(desired)
		if err != nil {
			return err
		}
		return s.apiServerReady(ctx, at)
	}
	i := slices.IndexFunc(components, func(c listener) bool { return c.name == component })
	return s.componentHealthy(ctx, components[i])
}

// othersServe says that etcd would lose its quorum while the member of this machine is away. One
// that serves nobody is not missed. Of one or two members, the quorum is lost for that moment.
func (s *controlPlaneStep) othersServe(ctx context.Context) error {
	client, err := s.etcd.Open()
	if client == nil || err != nil || client.Serves(ctx) != nil {
		return err
	}
	members, err := client.Members(ctx)
	if err != nil {
		return err
	}
	voters, healthy := 0, 0
	var last error
	for _, m := range members {
		if m.Learner {
			continue
		}
		voters++
		if err := client.Healthy(ctx, m); err != nil {
			last = err
			continue
		}
		healthy++
	}
	if others := healthy - 1; others < min(voters-1, voters/2+1) {
		return converge.Wait(api.ReasonRenewalFailed, "the certificates are renewed, and etcd is not restarted with them: of the %d other members, too few are healthy to go on without this one (%s)", voters-1, said(last))
	}
	return nil
}
