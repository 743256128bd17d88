package clusterdepartures

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPodsThatEndWithTheirNode(t *testing.T) {
	owned := func(kind string, controller bool) map[string]any {
		return map[string]any{"ownerReferences": []any{map[string]any{"kind": kind, "name": "owner", "controller": controller}}}
	}
	for what, c := range map[string]struct {
		metadata map[string]any
		phase    string
		want     bool
	}{
		"of a ReplicaSet":                      {owned("ReplicaSet", true), "Running", false},
		"of nothing":                           {nil, "Running", false},
		"of a DaemonSet":                       {owned("DaemonSet", true), "Running", true},
		"of a DaemonSet that is no controller": {owned("DaemonSet", false), "Running", false},
		"of a file of kubelet":                 {map[string]any{"annotations": map[string]any{mirrorAnnotation: "x"}}, "Running", true},
		"that has succeeded":                   {owned("Job", true), "Succeeded", true},
		"that has failed":                      {nil, "Failed", true},
		"that has not begun":                   {nil, "Pending", false},
		"whose phase nobody knows":             {owned("ReplicaSet", true), "", false},
	} {
		pod := &unstructured.Unstructured{Object: map[string]any{"metadata": c.metadata, "status": map[string]any{"phase": c.phase}}}
		if got := stays(pod); got != c.want {
			t.Errorf("a Pod %s: %v, want %v", what, got, c.want)
		}
	}
}

// The API server has three answers that keep a Pod for now; any other is a failure.
func TestAnswersThatKeepAPod(t *testing.T) {
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "app", errors.New("unable to create new content"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	for what, c := range map[string]struct {
		err  error
		want bool
	}{
		"a budget":               {apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0), true},
		"several budgets":        {apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget")), true},
		"its namespace's end":    {ending, true},
		"no right":               {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "app", errors.New("no")), false},
		"another internal error": {apierrors.NewInternalError(errors.New("etcdserver: no leader")), false},
	} {
		if got := refusesEviction(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
