package enrollment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// unnamed is a world whose topology does not name the server. answer is the outcome of
// a discovery.
func unnamed(t *testing.T, answer func(w *world) error) (w *world, calls *int) {
	w = newWorld(t)
	w.expect(server, instance, false)
	calls = new(int)
	w.Discover = func(_ context.Context, instanceID, serverID string) error {
		*calls++
		if instanceID != instance || serverID != server {
			t.Errorf("the discovery is for server %s of instance %s", serverID, instanceID)
		}
		return answer(w)
	}
	return w, calls
}

func TestAServerThatIsFoundInItsStackEnrolls(t *testing.T) {
	w, calls := unnamed(t, func(w *world) error { w.expect(server, instance, true); return nil })
	wantOK(t, w.boot(strings.ToUpper(server)).enroll())
	if *calls != 1 || w.events[EventNotExpected] != 0 {
		t.Errorf("%d calls, events %v", *calls, w.events)
	}
}

func TestAServerThatIsNotInItsStack(t *testing.T) {
	const inside = "heat-7.internal"
	for name, c := range map[string]struct {
		answer error
		says   string
		failed int
	}{
		"nothing was found":          {nil, "the server was not found in the instance's stack", 0},
		"the stack does not have it": {api.NewProblem(api.ProblemNotFound, inside), "the server was not found in the instance's stack", 0},
		"Heat is away":               {api.NewProblem(api.ProblemCloudError, inside), "the instance's stack could not be observed (the cloud did not give what was asked for)", 1},
		"the machine has hung up":    {context.Canceled, "the server was not found in the instance's stack", 0},
		"something else":             {errors.New(inside), "the instance's stack could not be observed (the controller's log says why)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, calls := unnamed(t, func(*world) error { return c.answer })
			problem := problemOf(t, w.boot(server).enroll(), api.ProblemServerNotExpected)
			if !strings.Contains(problem.Detail, c.says) || strings.Contains(problem.Detail, inside) {
				t.Errorf("it is told %s", problem.Detail)
			}
			if *calls != 1 || w.events["discovery failure"] != c.failed || w.events[EventNotExpected] != 1 {
				t.Errorf("%d calls, events %v", *calls, w.events)
			}
		})
	}
}

// A discovery that failed does not keep out a server that came into the topology meanwhile.
func TestAServerThatIsNamedWhileTheDiscoveryFails(t *testing.T) {
	w, _ := unnamed(t, func(w *world) error {
		w.expect(server, instance, true)
		return api.NewProblem(api.ProblemCloudError, "")
	})
	wantOK(t, w.boot(server).enroll())
}

// A bad token causes no discovery, and an expected server needs none.
func TestServersThatAreNotDiscovered(t *testing.T) {
	w, calls := unnamed(t, func(*world) error { return nil })
	wantProblem(t, w.boot(server).enrollWith("no-such.token"), api.ProblemUnauthorized)
	w.expect(server, instance, true)
	wantOK(t, w.boot(server).enroll())
	wantProblem(t, w.boot(server).enroll(), api.ProblemIdentityLive)
	w.restored()
	wantProblem(t, w.boot(server).enroll(), api.ProblemRestoreUnconfirmed)
	if *calls != 0 {
		t.Errorf("%d calls", *calls)
	}
}

// A discovery may itself write to the store.
func TestADiscoveryIsOutsideOfTransactions(t *testing.T) {
	w, _ := unnamed(t, func(w *world) error {
		return w.Store.Update(func(tx *store.Tx) error { return tx.Nodes().Delete("unknown") })
	})
	wantProblem(t, w.boot(server).enroll(), api.ProblemServerNotExpected)
}
