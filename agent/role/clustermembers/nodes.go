package clustermembers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// annotate plans to record in a Node which server it is of.
func (u *update) annotate(n kubeapi.Node, m api.ClusterMember) {
	if n.GetAnnotations()[kubeapi.ServerIDAnnotation] == m.ServerID {
		return
	}
	u.do(n.GetName(), fmt.Sprintf("annotate Node %s with its server id", n.GetName()), func(ctx context.Context) error {
		return u.PatchNode(ctx, n, map[string]any{kubeapi.ServerIDAnnotation: m.ServerID}, nil)
	})
}

// gone plans to remove the Nodes of servers that are neither listed nor to leave, once they are
// not Ready.
func (u *update) gone(ctx context.Context) error {
	var dead []kubeapi.Node
	var problems []error
	for _, n := range u.nodes {
		id := n.GetAnnotations()[kubeapi.ServerIDAnnotation]
		if id == "" || u.listed(id) || u.leaves(id) || !n.Of(id) {
			continue
		}
		if ready, _ := n.Ready(); ready {
			problems = append(problems, converge.Wait(api.ReasonConverging,
				"Node %s is of server %s, which is not a member any more, and is still Ready; it is deleted when it is not Ready", n.GetName(), id))
			continue
		}
		dead = append(dead, n)
	}
	if len(dead) == 0 {
		return errors.Join(problems...)
	}
	members, client, err := u.etcdMembers(ctx)
	if err != nil { // an etcd member must not outlive its Node, by which it is known
		return errors.Join(append(problems, err)...)
	}
	for _, n := range dead {
		for _, m := range etcd.Of(members, []etcd.Machine{{Node: n.GetName(), Addresses: n.Addresses()}}, u.stay(dead)) {
			u.do(n.GetName(), fmt.Sprintf("remove the etcd member of Node %s, whose server is deleted", n.GetName()), func(ctx context.Context) error {
				return refused(n, client.Remove(ctx, m.ID))
			})
		}
		u.do(n.GetName(), fmt.Sprintf("delete Node %s, whose server is deleted", n.GetName()), func(ctx context.Context) error { return u.DeleteNode(ctx, n) })
	}
	return errors.Join(problems...)
}

// stay are the machines that keep their etcd members: the listed ones, and those of all Nodes
// but the dead ones.
func (u *update) stay(dead []kubeapi.Node) (list []etcd.Machine) {
	for _, m := range u.members {
		list = append(list, etcd.Machine{Addresses: m.Addresses})
	}
	for _, n := range u.nodes {
		if !slices.ContainsFunc(dead, func(d kubeapi.Node) bool { return d.GetUID() == n.GetUID() }) {
			list = append(list, etcd.Machine{Node: n.GetName(), Addresses: n.Addresses()})
		}
	}
	return list
}

func (u *update) etcdMembers(ctx context.Context) ([]etcd.Member, *etcd.Client, error) {
	client, err := u.etcd.Open()
	if client == nil || err != nil {
		return nil, nil, err
	}
	members, err := client.Members(ctx)
	return members, client, err
}

// refused says that etcd keeps a member for now.
func refused(n kubeapi.Node, err error) error {
	if errors.Is(err, etcd.ErrQuorum) {
		return converge.Wait(api.ReasonConverging, "the etcd member of Node %s stays until enough of the others run: %v", n.GetName(), err)
	}
	return err
}
