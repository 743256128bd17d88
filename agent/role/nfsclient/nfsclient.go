// Package nfsclient installs the NFS client on masters and workers: kubelet mounts NFS
// PersistentVolumes with mount.nfs of the distribution's package. NFS 4 needs no
// service; for NFS 3 the package starts what it needs.
package nfsclient

import (
	"context"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/software"
	"github.com/nodehitch/nodehitch/shared/api"
)

// step owns NFSClientInstalled.
type step struct{ machine *host.Host }

// New returns the step that owns NFSClientInstalled.
func New(machine *host.Host) converge.Step { return &step{machine} }

func (s *step) Condition() string { return api.ConditionNFSClientInstalled }

// Plan installs and never removes: without a section the package stays, because other
// mounts may use it by now.
func (s *step) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.NFSClient == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	actions, err := software.Install(ctx, s.machine, software.ProxyOf(desired), "nfs client", host.NFSClient)
	return converge.Plan{
		Actions: actions, Reason: api.ReasonInstalled,
		Message: s.machine.Packages.Name(host.NFSClient) + " is installed",
	}, err
}
