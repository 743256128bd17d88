package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// registration has volumes be in the cluster.
type registration struct {
	*cluster
	limit   time.Duration
	actions []converge.Action
}

func (r *registration) plan(ctx context.Context, all []volume) (converge.Plan, error) {
	var found []string
	var problems []error
	for _, want := range all {
		phase, err := r.look(ctx, want)
		if noAnswer(err) { // and there is none for the others
			return converge.Plan{}, err
		}
		if err != nil {
			problems = append(problems, err)
		}
		found = append(found, strings.TrimSpace(want.GetName()+" "+phase))
	}
	message := "there is no PersistentVolume to register"
	if len(found) > 0 {
		message = "registered: " + strings.Join(found, ", ")
	}
	return converge.Plan{Actions: r.actions, Reason: api.ReasonRegistered, Message: message}, errors.Join(problems...)
}

// look plans for one volume. The cluster's own controllers change it right after it
// was made, so that a look which they disturbed is taken again.
func (r *registration) look(ctx context.Context, want volume) (phase string, err error) {
	for range 3 {
		live, err := r.get(ctx, want.GetName())
		if err != nil {
			return "", err
		}
		if err = r.compare(ctx, want, live); errors.Is(err, errChanged) {
			continue
		}
		if live != nil {
			phase = live.phase()
		}
		return phase, err
	}
	return "", errChanged
}

func (r *registration) do(v volume, summary string, f func(context.Context) error) {
	r.actions = append(r.actions, converge.Action{Summary: summary, Group: v.GetName(), Do: f})
}

// compare plans what makes the volume what is wanted.
func (r *registration) compare(ctx context.Context, want volume, live *volume) error {
	switch {
	case live == nil:
		r.do(want, "register PersistentVolume "+want.GetName(), func(ctx context.Context) error { return r.make(ctx, want) })
		return nil
	case !live.ours():
		return foreign(want.GetName())
	case live.deleting():
		return live.stuck()
	case live.source() == want.source():
		return r.fields(ctx, want, *live)
	case live.phase() == "" || live.phase() == "Pending":
		return converge.Wait(api.ReasonSourceImmutable, "%s; %s is wanted, and it is made anew once the cluster says that it is free", live.points(), want.source())
	case live.phase() != phaseAvailable || live.claim() != "":
		return converge.Fail(api.ReasonSourceImmutable, "%s; %s is wanted", live.points(), want.source())
	}
	r.do(want, fmt.Sprintf("make PersistentVolume %s anew: from %s to %s", want.GetName(), live.source(), want.source()), func(ctx context.Context) error {
		if err := r.delete(ctx, *live); err != nil {
			return explain(err)
		}
		if err := r.waitGone(ctx, r.limit, want.GetName()); err != nil {
			return err
		}
		return r.make(ctx, want)
	})
	return nil
}

func (v volume) points() string { return v.use() + " and points to " + v.source().String() }

func foreign(name string) error {
	return converge.Fail(api.ReasonForeignPersistentVolume, "PersistentVolume %s is there, and nodehitch did not make it (it lacks the label %s=%s)", name, ownerLabel, owner)
}

// make makes a volume. It forces nothing, so that one which another made since it was
// looked for is not taken over.
func (r *registration) make(ctx context.Context, want volume) error {
	_, err := r.volumes.Apply(ctx, want.GetName(), want.Unstructured, metav1.ApplyOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return foreign(want.GetName())
	case err != nil:
		return explain(err)
	}
	return nil
}

// fields plans that the fields of the manifest are as they should be: the API server
// itself says, without doing it, what applying it would change.
func (r *registration) fields(ctx context.Context, want, live volume) error {
	locked := volume{want.DeepCopy()}
	locked.SetResourceVersion(live.GetResourceVersion())
	force := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	apply := func(ctx context.Context, o metav1.ApplyOptions) (*volume, error) {
		u, err := r.volumes.Apply(ctx, want.GetName(), locked.Unstructured, o)
		if err != nil {
			return nil, explain(err)
		}
		return &volume{u}, nil
	}
	dry := force
	dry.DryRun = []string{metav1.DryRunAll}
	would, err := apply(ctx, dry)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(would.Object, live.Object) {
		return nil
	}
	r.do(want, "put PersistentVolume "+want.GetName()+" back to its manifest", func(ctx context.Context) error {
		_, err := apply(ctx, force)
		return err
	})
	return nil
}
