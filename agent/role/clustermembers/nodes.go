package clustermembers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid":         n.GetUID(), // no other Node of the same name
			"annotations": map[string]any{kubeapi.ServerIDAnnotation: m.ServerID},
		}})
		if err != nil {
			return err
		}
		_, err = u.Resource(kubeapi.Nodes).Patch(ctx, n.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kubeapi.FieldManager})
		return u.explain(err)
	})
}

// gone plans to remove the Nodes of servers that are not listed.
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
		for _, m := range members {
			if m.Of(n.GetName(), n.Addresses()) {
				u.do(n.GetName(), fmt.Sprintf("remove the etcd member of Node %s, whose server is deleted", n.GetName()), func(ctx context.Context) error {
					return refused(n, client.Remove(ctx, m.ID))
				})
			}
		}
		u.do(n.GetName(), fmt.Sprintf("delete Node %s, whose server is deleted", n.GetName()), func(ctx context.Context) error { return u.delete(ctx, n) })
	}
	return errors.Join(problems...)
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

// delete deletes the Node in the observed version: it may be Ready again in a later one.
func (u *update) delete(ctx context.Context, n kubeapi.Node) error {
	uid, version := n.GetUID(), n.GetResourceVersion()
	return u.deleted(u.Resource(kubeapi.Nodes).Delete(ctx, n.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	}))
}
