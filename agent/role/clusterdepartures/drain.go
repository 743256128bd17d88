package clusterdepartures

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// retryEviction is how soon a Pod is evicted again whose PodDisruptionBudget did not allow it.
const retryEviction = time.Second

// drain evicts the Pods of these Nodes and waits until they have ended. After the limit the
// error names those that have not; if the section is forced, they are left.
func (d *departures) drain(ctx context.Context, nodes []kubeapi.Node) error {
	over := time.NewTimer(d.limit)
	defer over.Stop()
	tick := time.NewTicker(retryEviction)
	defer tick.Stop()
	for {
		left, err := d.evictAll(ctx, nodes)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
			continue
		case <-over.C:
		case <-ctx.Done():
		}
		if d.section.Force {
			return ctx.Err()
		}
		return converge.Wait(api.ReasonEvictionBlocked, "%s", some(left))
	}
}

// evictAll evicts the Pods that are not ending yet, and says which are left, and why.
func (d *departures) evictAll(ctx context.Context, nodes []kubeapi.Node) (left []string, err error) {
	all, err := d.pods(ctx, nodes)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		why := "has not ended yet"
		if !p.ending() {
			switch err := d.evict(ctx, p); {
			case apierrors.IsNotFound(err):
				continue
			case apierrors.IsConflict(err): // it is gone, and another one has its name
				why = "was replaced by another one"
			case refusesEviction(err):
				why = refusal(err)
			case err != nil:
				return nil, d.explain(err)
			}
		}
		left = append(left, fmt.Sprintf("%s on Node %s %s", p.title(), p.node(), why))
	}
	return left, nil
}

func (p pod) node() string {
	name, _, _ := unstructured.NestedString(p.Object, "spec", "nodeName")
	return name
}

// evict asks for the eviction of this Pod, and of none that has its name later.
func (d *departures) evict(ctx context.Context, p pod) error {
	eviction := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"name": p.GetName(), "namespace": p.GetNamespace()},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": string(p.GetUID())}},
	}}
	limited, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	_, err := d.Resource(pods).Namespace(p.GetNamespace()).Create(limited, eviction, metav1.CreateOptions{FieldManager: kubeapi.FieldManager}, "eviction")
	if limited.Err() != nil && ctx.Err() == nil {
		return errLater
	}
	return err
}

// evictionLimit is how long one eviction may take. The client itself repeats those of Pods
// whose PodDisruptionBudget is new, for as long as the API server says.
const evictionLimit = 10 * time.Second

var errLater = errors.New("the API server asks to try later")

// refusesEviction reports whether the API server keeps the Pod for now: its
// PodDisruptionBudget does not allow the eviction, it has several (500), or its namespace is
// being deleted (403).
func refusesEviction(err error) bool {
	return errors.Is(err, errLater) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "PodDisruptionBudget") ||
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
