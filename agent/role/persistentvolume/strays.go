package persistentvolume

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// stray reports whether nodehitch created the volume for this storage server and no
// manifest has it any more.
func (r *registration) stray(v volume) bool {
	return v.ours() && v.servedBy(r.servers) && !named(r.wanted, v.GetName())
}

// sweep plans to delete strays. One that is in use stays until it is free. Unlike in a
// withdrawal, no operation waits for it, and the others are deleted without it.
func (r *registration) sweep(strays []volume) error {
	var free []volume
	var kept []error
	for _, v := range strays {
		switch {
		case v.deleting() && v.bound():
			kept = append(kept, converge.Wait(api.ReasonStuckTerminating,
				"PersistentVolume %s is no longer among the manifests, was deleted, and is still bound to %s; it disappears with the claim", v.GetName(), v.claim()))
		case v.deleting():
			kept = append(kept, v.stuck())
		case v.bound():
			kept = append(kept, converge.Wait(api.ReasonInUse,
				"PersistentVolume %s is no longer among the manifests and is bound to %s; the agent deletes it when the claim is gone", v.GetName(), v.claim()))
		case v.claim() != "" && !v.freed() && !v.reservedByUs():
			kept = append(kept, converge.Wait(api.ReasonInUse,
				"PersistentVolume %s is no longer among the manifests and is reserved for %s; the agent deletes it when its spec.claimRef is removed", v.GetName(), v.claim()))
		default:
			free = append(free, v)
		}
	}
	if len(free) > 0 {
		r.do("no longer among the manifests", "delete PersistentVolumes "+strings.Join(names(free), ", ")+", which are no longer among the manifests",
			func(ctx context.Context) error { return r.remove(ctx, free) })
	}
	return errors.Join(kept...)
}

// remove deletes each in the observed version. One that was changed since may be bound.
func (r *registration) remove(ctx context.Context, strays []volume) error {
	var deleted []string
	var problems []error
	for _, v := range strays {
		switch err := r.delete(ctx, v); {
		case apierrors.IsConflict(err):
			problems = append(problems, converge.Wait(api.ReasonInUse,
				"PersistentVolume %s is no longer among the manifests, and was changed while it was to be deleted, so it may be in use", v.GetName()))
		case err != nil:
			return errors.Join(append(problems, r.explain(err))...)
		default:
			deleted = append(deleted, v.GetName())
		}
	}
	return errors.Join(append(problems, r.waitGone(ctx, r.limit, deleted...))...)
}
