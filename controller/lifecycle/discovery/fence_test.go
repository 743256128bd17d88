package discovery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// hanging is a cloud that does not answer.
type hanging struct {
	*lifecycletest.Cloud
	asked chan string
}

func (h hanging) Remains(ctx context.Context, r stack.Request, _, _ []string) (stack.Remains, error) {
	select {
	case h.asked <- r.InstanceID:
		<-ctx.Done()
	case <-ctx.Done():
	}
	return stack.Remains{}, ctx.Err()
}

// replacedBy is a PUT of an instance whose storage server is another one.
func replacedBy(w *lifecycletest.World, instanceID string, t *api.Topology) {
	w.Helper()
	_, _, err := w.Lifecycle.Instances.PutInstance(w.Ctx, instanceID, api.InstanceSpec{AdditionalParams: lifecycletest.KeepingParameters(), Topology: t})
	w.Must(err)
}

// A cloud that hangs holds up its own instance, and no other one.
func TestACloudThatHangsHoldsUpNoOtherFence(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	other, old, next := lifecycletest.UUID(8, 8), lifecycletest.UUID(1, 11), lifecycletest.UUID(1, 12)
	replacedBy(w, lifecycletest.InstanceID, lifecycletest.HealedTopology(lifecycletest.UUID(1, 2)))
	for _, id := range []string{old, next} {
		top := lifecycletest.TopologyOf(lifecycletest.Server(id, "storage"))
		top.StackID, top.Volumes[0].ID, top.Servers[0].VolumeIds = lifecycletest.StackTwo, lifecycletest.UUID(9, 11), []string{lifecycletest.UUID(9, 11)}
		replacedBy(w, other, top)
	}
	h := hanging{Cloud: cloud, asked: make(chan string)}
	w.Lifecycle.Instances.Observer.Source = h
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan error, 1)
	go func() { done <- w.Lifecycle.Discovery.CheckFences(ctx) }()
	var asked []string
	for range 2 {
		select {
		case id := <-h.asked:
			asked = append(asked, id)
		case <-time.After(5 * time.Second):
			t.Error("while one cloud hangs, the other one is not asked")
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the check ended with %v", err)
	}
	if slices.Sort(asked); !slices.Equal(asked, []string{other, lifecycletest.InstanceID}) {
		t.Errorf("asked for %v", asked)
	}
}

// What waits says that the cloud does not answer, and not what it showed before.
func TestACloudThatDoesNotAnswerIsSaid(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	next := lifecycletest.UUID(1, 2)
	replacedBy(w, lifecycletest.InstanceID, lifecycletest.HealedTopology(next))
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	cloud.Away = context.DeadlineExceeded
	w.Clock.Advance(time.Minute)
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	withheld := w.Node(next).Withheld
	if !slices.ContainsFunc(withheld, func(h api.Withheld) bool { return strings.Contains(h.Message, "the cloud has not answered within 30s") }) {
		t.Errorf("what is withheld is %+v", withheld)
	}
}

// An answer of the cloud counts for those that it was asked about: meanwhile another server may have come.
func TestAServerThatComesWhileTheCloudIsAsked(t *testing.T) {
	w, cloud := lifecycletest.Keeping(t)
	next, third := lifecycletest.UUID(1, 2), lifecycletest.UUID(1, 3)
	replacedBy(w, lifecycletest.InstanceID, lifecycletest.HealedTopology(next))
	cloud.Replaced(next)
	cloud.Meanwhile = func() { replacedBy(w, lifecycletest.InstanceID, lifecycletest.HealedTopology(third)) }
	w.Must(w.Lifecycle.Discovery.CheckFences(w.Ctx))
	withheld := w.Node(third).Withheld
	if !slices.ContainsFunc(withheld, func(h api.Withheld) bool {
		return strings.Contains(h.Message, "("+lifecycletest.StorageServer+"), had ")
	}) {
		t.Errorf("what is withheld is %+v", withheld)
	}
}
