package clusterdepartures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// drainage is one plan for Nodes that Pods have to leave.
type drainage struct {
	*kubeapi.Client
	cluster
	desired *api.NodeConfig
	nodes   []kubeapi.Node // all
	// deleteUnmanaged lets Pods go that nothing makes again, and force leaves those that stay.
	deleteUnmanaged, force bool
	actions                []converge.Action
}

func (c *cluster) open(ctx context.Context, desired *api.NodeConfig, deleteUnmanaged, force bool) (*drainage, error) {
	client, err := c.access.Connect()
	if err != nil {
		return nil, err
	}
	nodes, err := client.ListNodes(ctx)
	return &drainage{Client: client, cluster: *c, desired: desired, nodes: nodes, deleteUnmanaged: deleteUnmanaged, force: force}, err
}

// do plans an action. None follows one that has failed.
func (d *drainage) do(summary string, f func(context.Context) error) {
	d.actions = append(d.actions, converge.Action{Summary: summary, Group: "leave", Do: f})
}

// retryEviction is how soon a Pod is evicted again whose PodDisruptionBudget did not allow it.
const retryEviction = time.Second

// drain evicts the Pods of these Nodes and waits until they have ended, for the limit of one
// pass. Then the error names the Pods that have not ended, and a later pass tries again. If the
// section is forced, there is no error, and the next actions delete the Nodes.
func (d *drainage) drain(ctx context.Context, nodes []kubeapi.Node) error {
	over := time.NewTimer(d.limit)
	defer over.Stop()
	tick := time.NewTicker(retryEviction)
	defer tick.Stop()
	for end := time.Now().Add(d.limit); ; {
		left, err := d.evictAll(ctx, nodes, end)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
			nodes = slices.DeleteFunc(slices.Clone(nodes), func(n kubeapi.Node) bool {
				return !slices.ContainsFunc(left, func(p remaining) bool { return p.node == n.GetName() })
			})
			continue
		case <-over.C:
		case <-ctx.Done():
		}
		if d.force {
			return ctx.Err()
		}
		var lines []string
		for _, p := range left {
			lines = append(lines, fmt.Sprintf("%s on Node %s %s", p.title(), p.node, p.why))
		}
		return converge.Wait(api.ReasonEvictionBlocked, "%s", some(lines))
	}
}

// remaining is a Pod that has not left its Node.
type remaining struct {
	pod
	why string
}

// evictAll evicts the Pods that are not ending yet, as far as it comes until the end.
func (d *drainage) evictAll(ctx context.Context, nodes []kubeapi.Node, end time.Time) (left []remaining, err error) {
	all, err := d.pods(ctx, nodes)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		why := "has not ended yet"
		switch {
		case p.ending():
		case time.Now().After(end):
			why = "is evicted next"
		default:
			switch err := d.evict(ctx, p); {
			case apierrors.IsNotFound(err):
				continue
			case apierrors.IsConflict(err): // it is gone, and another one has its name
				why = "was replaced by another one"
			case refusesEviction(err):
				why = refusal(err)
			case err != nil:
				return nil, d.Explain(err)
			}
		}
		left = append(left, remaining{p, why})
	}
	return left, nil
}

// evict asks for the eviction of this Pod, and of none that has its name later.
func (d *drainage) evict(ctx context.Context, p pod) error {
	eviction := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"name": p.name, "namespace": p.namespace},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": string(p.uid)}},
	}}
	_, err := d.Resource(pods).Namespace(p.namespace).Create(ctx, eviction, metav1.CreateOptions{FieldManager: kubeapi.FieldManager}, "eviction")
	return err
}

// refusesEviction reports whether the API server keeps the Pod for now: its
// PodDisruptionBudget does not allow the eviction (429), it has several (500), or its
// namespace is being deleted (403).
func refusesEviction(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "PodDisruptionBudget") ||
		apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// refusal is why the API server keeps a Pod, with the PodDisruptionBudget's name.
func refusal(err error) string {
	text := "cannot be evicted: " + err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			text += " " + c.Message
		}
	}
	return text
}

// most is how many Pods a message names.
const most = 10

// some is a list that is no longer than a message may be.
func some(list []string) string {
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), more)
	}
	return strings.Join(list, "; ")
}
