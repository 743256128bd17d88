package kubeadm

import (
	"context"
	"slices"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Masters are the addresses that masters of this instance have, or had while this machine was one. An
// etcd member that is at one of them, and of no master any more, is what a join has left.
func (m *Machine) Masters() ([]string, error) {
	o, err := m.owned()
	return o.Masters, err
}

// masters plans to record them on each master, because any of them may speak for the cluster later.
func (p *preparation) masters() error {
	if p.desired.Role != api.RoleMaster || p.desired.Cluster == nil {
		return nil
	}
	had, err := p.Masters()
	if err != nil {
		return err
	}
	all := slices.Clone(had)
	for _, s := range p.desired.Cluster.Masters {
		all = append(all, s.Addresses...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > len(had) {
		p.do("record the addresses of the masters", func(context.Context) error {
			return p.own(func(o *owned) { o.Masters = all })
		})
	}
	return nil
}
