package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// withdrawal deletes the volumes of a storage server: all or none.
type withdrawal struct {
	*cluster
	// servers are the addresses of the storage server.
	servers []string
	named   []volume
	limit   time.Duration
	names   *lookup
}

// clusterState is what the cluster has for the storage server.
type clusterState struct {
	// ours are to be deleted, leaving are being deleted, kept are not ours.
	ours, leaving []volume
	kept          []string
}

func (w *withdrawal) plan(ctx context.Context) (converge.Plan, error) {
	now, err := w.observe(ctx)
	if err != nil {
		return converge.Plan{}, err
	}
	plan := converge.Plan{Reason: api.ReasonAbsent, Message: "the cluster has no PersistentVolume of nodehitch's for " + strings.Join(w.servers, ", ")}
	if len(now.kept) > 0 {
		plan.Message += "; " + strings.Join(now.kept, ", ") + " are not nodehitch's and stay"
	}
	if len(now.ours) > 0 {
		plan.Actions = []converge.Action{{Summary: "delete PersistentVolumes " + strings.Join(names(now.ours), ", "), Group: "all", Do: w.withdraw}}
	}
	var stuck []error
	for _, v := range now.leaving {
		stuck = append(stuck, v.stuck())
	}
	return plan, errors.Join(stuck...)
}

// observe returns what the cluster has for the server. It fails if a volume is in use,
// also one that nodehitch did not create, because its data is on the server too. A bound
// one whose server is a name is in use unless the name surely means another server.
func (w *withdrawal) observe(ctx context.Context) (clusterState, error) {
	var now clusterState
	var others []volume
	all, err := w.list(ctx, func(v volume) bool {
		known := v.servedBy(w.servers) || w.ours(v)
		if !known && v.bound() && v.byName() {
			others = append(others, v)
		}
		return known
	})
	if err != nil {
		return now, err
	}
	used := w.names.used(ctx, others)
	var stuck []error
	for _, v := range all {
		ours := w.ours(v)
		switch {
		case ours && v.deleting():
			now.leaving = append(now.leaving, v)
			if v.phase() == phaseBound {
				stuck = append(stuck, v.stuck())
			}
		case v.bound():
			used = append(used, v.use())
		case ours:
			now.ours = append(now.ours, v)
		default:
			now.kept = append(now.kept, v.GetName())
		}
	}
	if len(used) > 0 {
		stuck = append(stuck, converge.Fail(api.ReasonInUse, "none is deleted: %s", strings.Join(used, "; ")))
	}
	return now, errors.Join(stuck...)
}

// ours reports whether nodehitch created the volume for this server or its predecessor.
func (w *withdrawal) ours(v volume) bool {
	return v.ours() && (v.servedBy(w.servers) || named(w.named, v.GetName()))
}

// withdraw observes all volumes again and deletes each in the observed version. One that
// was changed since may have been bound, and counts as in use.
func (w *withdrawal) withdraw(ctx context.Context) error {
	now, err := w.observe(ctx)
	if err != nil {
		return err
	}
	for i, v := range now.ours {
		switch err := w.delete(ctx, v); {
		case apierrors.IsConflict(err):
			return converge.Wait(api.ReasonInUse, "PersistentVolume %s was changed while it was to be deleted, so it may be in use%s", v.GetName(), gone(now.ours[:i]))
		case err != nil:
			return w.explain(err)
		}
	}
	return w.waitGone(ctx, w.limit, names(now.ours)...)
}

func gone(before []volume) string {
	if len(before) == 0 {
		return "; none was deleted"
	}
	return fmt.Sprintf("; deleted before that: %s", strings.Join(names(before), ", "))
}

func named(volumes []volume, name string) bool {
	return slices.ContainsFunc(volumes, func(v volume) bool { return v.GetName() == name })
}

func names(volumes []volume) []string {
	var all []string
	for _, v := range volumes {
		all = append(all, v.GetName())
	}
	slices.Sort(all)
	return all
}
