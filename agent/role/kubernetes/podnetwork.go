package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// CoreDNS is a Deployment of kubeadm's.
const (
	dnsName   = "coredns"
	namespace = "kube-system"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// largestManifest is more than any network's.
const largestManifest = 16 << 20

// podNetworkStep owns PodNetworkReady.
type podNetworkStep struct {
	Options
	access kubeapi.Access
}

func (s *podNetworkStep) Condition() string { return api.ConditionPodNetworkReady }

// ClusterScoped makes the engine act only for a document that the controller has confirmed on
// the present connection: an earlier manifest must not take back a later one.
func (s *podNetworkStep) ClusterScoped() {}

func (s *podNetworkStep) Plan(ctx context.Context, desired *api.NodeConfig) (converge.Plan, error) {
	if desired.PodNetwork == nil {
		return converge.Plan{HandsOff: true}, nil
	}
	plan := converge.Plan{Reason: api.ReasonNetworkReady}
	c, err := s.access.Connect()
	if err != nil {
		return plan, err
	}
	if plan.Actions, err = s.manifest(ctx, c, desired.PodNetwork.Manifest); err != nil {
		return plan, err
	}
	nodes, err := c.ListNodes(ctx)
	if err != nil {
		return plan, err
	}
	if nowhere(nodes, desired.ClusterDrains) {
		plan.Message = fmt.Sprintf("%d of %d Nodes are Ready; no Node takes CoreDNS until they are upgraded", len(nodes), len(nodes))
		return plan, notReady(nodes, desired.ClusterMembers)
	}
	plan.Message = fmt.Sprintf("%d of %d Nodes are Ready, and CoreDNS is available", len(nodes), len(nodes))
	return plan, errors.Join(notReady(nodes, desired.ClusterMembers), dns(ctx, c))
}

// nowhere reports whether each Node is cordoned while members are upgraded. They stay so until this
// master is Ready, too, which therefore waits for no Pod.
func nowhere(nodes []kubeapi.Node, drains *api.ClusterDrainsSection) bool {
	return drains != nil && len(drains.Members) > 0 && !slices.ContainsFunc(nodes, func(n kubeapi.Node) bool { return !n.Cordoned() })
}

// manifest plans to download the manifest, and to apply those of its objects that differ.
func (s *podNetworkStep) manifest(ctx context.Context, c *kubeapi.Client, ref *api.FileReference) ([]converge.Action, error) {
	if ref == nil { // the machines' image brings the network
		return nil, nil
	}
	objects, err := s.objects(*ref)
	if errors.Is(err, fs.ErrNotExist) {
		return []converge.Action{
			{Summary: fmt.Sprintf("fetch the manifest of the Pods' network %.12s", ref.Sha256), Group: "network", Do: func(ctx context.Context) error {
				return s.Files.Fetch(ctx, *ref)
			}},
			{Summary: "apply the manifest of the Pods' network", Group: "network", Do: func(ctx context.Context) error {
				return s.applyAll(ctx, c, *ref)
			}},
		}, nil
	}
	if err != nil {
		return nil, err
	}
	var actions []converge.Action
	kinds := c.Kinds()
	for _, o := range objects {
		at, err := kinds.Of(ctx, o)
		if err == nil {
			var applied bool
			if applied, err = c.Applied(ctx, at, o); applied {
				continue
			}
		}
		if kubeapi.NoAnswer(err) {
			return actions, err
		}
		// An object that the API server refuses now may be accepted after those before it: its
		// namespace or its kind may not be there yet.
		actions = append(actions, converge.Action{Summary: "apply " + name(o), Do: func(ctx context.Context) error {
			return apply(ctx, c, c.Kinds(), o)
		}})
	}
	return actions, nil
}

// objects are those of the manifest, in the order in which they need one another.
func (s *podNetworkStep) objects(ref api.FileReference) ([]*unstructured.Unstructured, error) {
	file, err := s.Files.Open(ref)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, largestManifest))
	if err != nil {
		return nil, err
	}
	objects, err := kubeapi.ParseObjects(content)
	if err != nil {
		return nil, converge.Fail(api.ReasonManifestRejected, "the manifest of the Pods' network is no list of objects: %v", err)
	}
	for _, o := range objects {
		if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
			return nil, converge.Fail(api.ReasonManifestRejected, "the manifest of the Pods' network has an object without apiVersion, kind or metadata.name")
		}
		for _, decided := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
			unstructured.RemoveNestedField(o.Object, "metadata", decided)
		}
		unstructured.RemoveNestedField(o.Object, "status")
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return objects, nil
}

// rank puts first what others need.
func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	}
	return 2
}

func (s *podNetworkStep) applyAll(ctx context.Context, c *kubeapi.Client, ref api.FileReference) error {
	objects, err := s.objects(ref)
	if err != nil {
		return err
	}
	kinds := c.Kinds()
	var errs []error
	for _, o := range objects {
		err := apply(ctx, c, kinds, o)
		if kubeapi.NoAnswer(err) {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func apply(ctx context.Context, c *kubeapi.Client, kinds kubeapi.Kinds, o *unstructured.Unstructured) error {
	var at dynamic.ResourceInterface
	at, err := kinds.Of(ctx, o)
	if err == nil {
		err = c.Apply(ctx, at, o)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kubeapi.ErrKindUnknown), apierrors.IsNotFound(err): // its kind or namespace may be on the way
		return converge.Wait(api.ReasonConverging, "%s of the Pods' network cannot be applied yet: %v", name(o), err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return converge.Fail(api.ReasonManifestRejected, "the API server refuses %s of the Pods' network: %v", name(o), err)
	case kubeapi.NoAnswer(err):
		return err
	}
	return c.Explain(err)
}

// name is how messages name an object.
func name(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// notReady names the members' Nodes that are not Ready. The Node of a server that is no member
// any more is removed by another step, and counts for nothing.
func notReady(nodes []kubeapi.Node, members *api.ClusterMembersSection) error {
	var names []string
	why := ""
	for _, n := range nodes {
		id := n.GetAnnotations()[kubeapi.ServerIDAnnotation]
		if members != nil && id != "" && !slices.ContainsFunc(members.Members, func(m api.ClusterMember) bool { return m.ServerID == id }) {
			continue
		}
		if ready, said := n.Ready(); !ready {
			names = append(names, n.GetName())
			why = said
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return converge.Wait(api.ReasonNodeNotReady, "Node %s is not Ready: %s", names[0], why)
	}
	return converge.Wait(api.ReasonNodeNotReady, "%d Nodes are not Ready: %s; the last one says %s", len(names), strings.Join(names, ", "), why)
}

// dns says that Pods find no Service.
func dns(ctx context.Context, c *kubeapi.Client) error {
	u, err := c.Resource(deployments).Namespace(namespace).Get(ctx, dnsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return converge.Wait(api.ReasonDNSUnavailable, "the cluster has no Deployment %s/%s", namespace, dnsName)
	}
	if err != nil {
		return c.Explain(err)
	}
	available, _, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
	if available == 0 {
		return converge.Wait(api.ReasonDNSUnavailable, "no replica of the Deployment %s/%s is available", namespace, dnsName)
	}
	return nil
}
