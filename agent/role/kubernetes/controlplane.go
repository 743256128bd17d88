package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

type listener struct {
	name string
	port int
}

// The components that listen on the loopback address of their master alone.
var components = []listener{{kubeadm.ControllerManager, 10257}, {kubeadm.Scheduler, 10259}}

// controlPlaneStep owns ControlPlaneHealthy.
type controlPlaneStep struct {
	Options
	access kubeapi.Access
	etcd   etcd.Access
}

func (s *controlPlaneStep) Condition() string { return api.ConditionControlPlaneHealthy }

func (s *controlPlaneStep) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.ControlPlane == nil || desired.Cluster == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	plan := converge.Plan{Reason: api.ReasonHealthy}
	joined, err := s.Kubeadm.Joined()
	if err != nil {
		return plan, err
	}
	plan.Actions, err = s.sharedAddress(ctx, desired)
	if err != nil || len(plan.Actions) > 0 {
		return plan, err
	}
	if !joined {
		if err := s.notHeld(desired); err != nil {
			return plan, err
		}
		return plan, converge.Wait(api.ReasonWaitingForCluster, "this master is no member of a cluster yet; see %s", api.ConditionClusterMember)
	}
	certificates, unreadable := s.Kubeadm.Certificates(s.now())
	if !certificates.Expire.IsZero() {
		plan.ControlPlane = &api.ControlPlaneFacts{CertificatesExpireAt: certificates.Expire, RenewalDue: certificates.Turn()}
	}
	// It waits for nothing that is healthy: expired certificates are why it is not.
	if plan.Actions = s.renewal(desired, certificates); len(plan.Actions) > 0 {
		return plan, unreadable
	}
	return plan, errors.Join(unreadable, s.healthy(ctx, desired, &plan, certificates.Says()))
}

// healthy also makes the message of a control plane that is.
func (s *controlPlaneStep) healthy(ctx context.Context, desired *api.NodeConfig, plan *converge.Plan, renewal string) error {
	// Without etcd nothing else is healthy, so it is asked first.
	if err := s.etcdServes(ctx); err != nil {
		return err
	}
	at, err := s.apiServer(desired)
	if err != nil {
		return err
	}
	errs := []error{s.apiServerReady(ctx, at)}
	for _, c := range components {
		errs = append(errs, s.componentHealthy(ctx, c))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	holding, err := s.holding(desired)
	plan.Message = fmt.Sprintf("the API server at %s is ready, and so are etcd, controller manager and scheduler%s%s", at, holding, renewal)
	return err
}

// apiServer is where this master's listens.
func (s *controlPlaneStep) apiServer(desired *api.NodeConfig) (netip.AddrPort, error) {
	endpoint, err := netip.ParseAddrPort(desired.Cluster.Endpoint)
	if own := s.Kubeadm.Address(desired.Cluster); own != "" {
		return netip.AddrPortFrom(parsed(own), endpoint.Port()), err
	}
	return endpoint, err
}

func (s *controlPlaneStep) etcdServes(ctx context.Context) error {
	client, err := s.etcd.Open()
	if client == nil || err != nil { // the cluster's etcd is elsewhere
		return err
	}
	err = client.Serves(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, etcd.ErrNoLeader):
		return converge.Wait(api.ReasonQuorumLost, "etcd has no leader: too few of its members, one on each master, run or reach one another")
	}
	return converge.Wait(api.ReasonComponentUnhealthy, "etcd: %s", said(err))
}

// said is an error's message without a reason of another condition.
func said(err error) string {
	var waiting *converge.Waiting
	if errors.As(err, &waiting) {
		return waiting.Message
	}
	return err.Error()
}

func (s *controlPlaneStep) apiServerReady(ctx context.Context, at netip.AddrPort) error {
	c, err := s.access.Connect()
	if err != nil {
		return err
	}
	not, err := c.Ready(ctx, at.Addr().String(), int(at.Port()))
	switch {
	case err != nil:
		return converge.Wait(api.ReasonComponentUnhealthy, "kube-apiserver does not answer: %v", err)
	case not != "":
		return converge.Wait(api.ReasonComponentUnhealthy, "kube-apiserver is not ready: %s", not)
	}
	return nil
}

func parsed(address string) netip.Addr {
	a, _ := netip.ParseAddr(address) // the document's was checked
	return a
}

func (s *controlPlaneStep) componentHealthy(ctx context.Context, c listener) error {
	answer, err := s.Host.Ports.GetTLS(ctx, c.port, "/healthz")
	switch {
	case err != nil:
		return converge.Wait(api.ReasonComponentUnhealthy, "%s does not answer: %v", c.name, err)
	case answer.Status != http.StatusOK:
		return converge.Wait(api.ReasonComponentUnhealthy, "%s is not healthy: it answers %d %s", c.name, answer.Status, strings.TrimSpace(answer.Body))
	}
	return nil
}
