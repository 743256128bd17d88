package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// ParseObjects reads the objects of a manifest, in their order; a List is its items.
func ParseObjects(manifest []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	var all []*unstructured.Unstructured
	for n := 1; ; n++ {
		var content map[string]any
		err := reader.Decode(&content)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		if content == nil { // only comments
			continue
		}
		u := &unstructured.Unstructured{Object: content}
		if !u.IsList() {
			all = append(all, u)
			continue
		}
		err = u.EachListItem(func(item runtime.Object) error {
			each, ok := item.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("document %d: an item of the list is no object", n)
			}
			all = append(all, each)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}

// ErrKindUnknown says that the API server does not serve a kind, or not yet.
var ErrKindUnknown = errors.New("the API server does not serve this kind")

// Of is where the API server has the objects of an object's kind; errors.Is(err, ErrKindUnknown)
// if it has none. An object of a namespace that names none is in the namespace default.
func (k Kinds) Of(ctx context.Context, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	served, err := k.served(ctx, kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	for _, r := range served {
		if r.Kind != kind.Kind || strings.Contains(r.Name, "/") {
			continue
		}
		all := k.Resource(kind.GroupVersion().WithResource(r.Name))
		if !r.Namespaced {
			return all, nil
		}
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		return all.Namespace(namespace), nil
	}
	return nil, fmt.Errorf("%w: %s of %s", ErrKindUnknown, kind.Kind, kind.GroupVersion())
}

// Kinds are the kinds that the API server serves. It asks once for each group, so it is for one
// pass.
type Kinds struct {
	*Client
	groups map[schema.GroupVersion][]metav1.APIResource
}

// Kinds are for one pass.
func (c *Client) Kinds() Kinds {
	return Kinds{Client: c, groups: map[schema.GroupVersion][]metav1.APIResource{}}
}

func (k Kinds) served(ctx context.Context, of schema.GroupVersion) ([]metav1.APIResource, error) {
	if list, asked := k.groups[of]; asked {
		return list, nil
	}
	path := "/apis/" + of.String()
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	status, content, err := k.get(ctx, k.server+path)
	if err != nil {
		return nil, k.Explain(err)
	}
	var list metav1.APIResourceList
	switch {
	case status == http.StatusNotFound:
	case status != http.StatusOK:
		return nil, k.Explain(apierrors.NewGenericServerResponse(status, "GET", schema.GroupResource{}, path, strings.TrimSpace(string(content)), 0, true))
	default:
		if err := json.Unmarshal(content, &list); err != nil {
			return nil, unusable("the API server answers %s with what is no list of resources: %v", path, err)
		}
	}
	k.groups[of] = list.APIResources
	return list.APIResources, nil
}

// Applied reports whether applying an object would change nothing.
func (c *Client) Applied(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured) (bool, error) {
	live, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, c.Explain(err)
	}
	options := applying
	options.DryRun = []string{metav1.DryRunAll}
	after, err := at.Apply(ctx, o.GetName(), o, options)
	if err != nil {
		return false, err
	}
	for _, each := range []*unstructured.Unstructured{live, after} {
		each.SetManagedFields(nil)
		each.SetResourceVersion("")
		each.SetGeneration(0)
	}
	return reflect.DeepEqual(live.Object, after.Object), nil
}

// applying makes the agent the owner of what the manifest has.
var applying = metav1.ApplyOptions{FieldManager: FieldManager, Force: true}

// Apply applies an object. The error is the API server's.
func (c *Client) Apply(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	_, err := at.Apply(ctx, o.GetName(), o, applying)
	return err
}

// Ready returns what the API server at this address, which may be another one of the cluster
// than the kubeconfig's, says of itself: "" if it is ready.
func (c *Client) Ready(ctx context.Context, address string, port int) (string, error) {
	status, content, err := c.get(ctx, "https://"+net.JoinHostPort(address, strconv.Itoa(port))+"/readyz?verbose")
	if err != nil || status == http.StatusOK {
		return "", err
	}
	var failed []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "[-]") {
			failed = append(failed, strings.TrimSpace(strings.TrimPrefix(line, "[-]")))
		}
	}
	if failed == nil {
		return fmt.Sprintf("it answers %d %s", status, http.StatusText(status)), nil
	}
	return strings.Join(failed, ", "), nil
}

func (c *Client) get(ctx context.Context, url string) (status int, content []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	const largest = 4 << 20
	content, err = io.ReadAll(io.LimitReader(answer.Body, largest))
	return answer.StatusCode, content, err
}
