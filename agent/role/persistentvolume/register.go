package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/shared/api"
)

// registration registers the volumes of the manifests, and deletes others that nodehitch
// created for the storage server.
type registration struct {
	*cluster
	servers []string // the addresses of the storage server
	wanted  []volume
	limit   time.Duration
	saw     func([]api.BoundPersistentVolume) // is told of the volumes that are bound
	actions []converge.Action
	down    error // why the cluster did not answer the last action, nil if it did
}

// plan sends one request if nothing has changed since the last pass.
func (r *registration) plan(ctx context.Context) (converge.Plan, error) {
	all, err := r.list(ctx, func(v volume) bool { return named(r.wanted, v.GetName()) || r.stray(v) })
	if err != nil {
		return converge.Plan{}, err
	}
	r.saw(boundOf(all))
	live := map[string]*volume{}
	var strays []volume
	for _, v := range all {
		if live[v.GetName()] = &v; r.stray(v) {
			strays = append(strays, v)
		}
	}
	var found []string
	var problems []error
	for _, want := range r.wanted {
		phase, err := r.observe(ctx, want, live[want.GetName()])
		if kubeapi.NoAnswer(err) { // the others would get none either
			return converge.Plan{}, err
		}
		if err != nil {
			problems = append(problems, err)
		}
		found = append(found, strings.TrimSpace(want.GetName()+" "+phase))
	}
	problems = append(problems, r.sweep(strays))
	r.forget()
	message := "there is no PersistentVolume to register"
	if len(found) > 0 {
		message = "registered: " + strings.Join(found, ", ")
	}
	return converge.Plan{Actions: r.actions, Reason: api.ReasonRegistered, Message: message}, errors.Join(problems...)
}

// maxBound is how many bound volumes a status names.
const maxBound = 256

// boundOf are those of nodehitch's volumes that are bound and point to an address, in the
// order of their names.
func boundOf(all []volume) []api.BoundPersistentVolume {
	var bound []api.BoundPersistentVolume
	for _, v := range all {
		if _, isAddress := addressOf(v.source().server); v.ours() && v.bound() && isAddress {
			bound = append(bound, api.BoundPersistentVolume{Name: v.GetName(), Server: v.source().server, Claim: v.claim()})
		}
	}
	slices.SortFunc(bound, func(a, b api.BoundPersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return bound[:min(len(bound), maxBound)]
}

// observe plans for one volume. The cluster's own controllers change a volume right
// after it was created; then observe tries again.
func (r *registration) observe(ctx context.Context, want volume, live *volume) (phase string, err error) {
	for range 3 {
		if err = r.compare(ctx, want, live); !errors.Is(err, errChanged) {
			if live != nil {
				phase = live.phase()
				if other := live.claim(); want.claim() != "" && other != "" && other != want.claim() {
					phase += " (the manifest reserves it for claim " + want.claim() + ", and it is or was bound to " + other + ")"
				}
			}
			return phase, err
		}
		if live, err = r.get(ctx, want.GetName()); err != nil {
			return "", err
		}
	}
	return "", errChanged
}

// do plans an action. After an action without an answer the following ones send no
// request, because each may take its whole time limit.
func (r *registration) do(group, summary string, f func(context.Context) error) {
	r.actions = append(r.actions, converge.Action{Summary: summary, Group: group, Do: func(ctx context.Context) error {
		if r.down != nil {
			return r.down
		}
		err := f(ctx)
		if kubeapi.NoAnswer(err) {
			r.down = err
		}
		return err
	}})
}

// compare plans the actions that bring the volume to its desired state.
func (r *registration) compare(ctx context.Context, want volume, live *volume) error {
	if live != nil {
		want = want.writtenAs(*live).claimedAs(*live)
	}
	switch {
	case live == nil:
		r.do(want.GetName(), "register PersistentVolume "+want.GetName(), func(ctx context.Context) error { return r.make(ctx, want) })
		return nil
	case !live.ours():
		return foreign(want.GetName())
	case live.deleting():
		return live.stuck()
	case live.source() == want.source():
		return r.fields(ctx, want, *live)
	case live.phase() == "" || live.phase() == "Pending":
		return converge.Wait(api.ReasonSourceImmutable, "%s; expected %s; the agent recreates it when its phase is Available", live.points(), want.source())
	case !live.replaceable(want):
		return converge.Fail(api.ReasonSourceImmutable, "%s; expected %s: %s", live.points(), want.source(), live.remedy())
	}
	r.do(want.GetName(), fmt.Sprintf("recreate PersistentVolume %s: from %s to %s", want.GetName(), live.source(), want.source()), func(ctx context.Context) error {
		if err := r.delete(ctx, *live); err != nil {
			return r.explain(err)
		}
		if err := r.waitGone(ctx, r.limit, want.GetName()); err != nil {
			return err
		}
		return r.make(ctx, want)
	})
	return nil
}

func (v volume) points() string { return v.use() + ", and it points to " + v.source().String() }

// remedy is what has to be done before a volume can be recreated.
func (v volume) remedy() string {
	if v.bound() {
		return "delete its claim, then the PersistentVolume"
	}
	return "delete it (kubectl delete pv " + v.GetName() + ")"
}

func foreign(name string) error {
	return converge.Fail(api.ReasonForeignPersistentVolume, "PersistentVolume %s exists, and nodehitch did not create it (it lacks the label %s=%s)", name, ownerLabel, owner)
}
