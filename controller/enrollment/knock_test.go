package enrollment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// unnamed is a world whose topology does not name the server, and where a knock is
// answered so.
func unnamed(t *testing.T, answer func(w *world) error) (w *world, knocks *int) {
	w = newWorld(t)
	w.expect(server, instance, false)
	knocks = new(int)
	w.Knock = func(_ context.Context, instanceID, serverID string) error {
		*knocks++
		if instanceID != instance || serverID != server {
			t.Errorf("knocked for %s of %s", serverID, instanceID)
		}
		return answer(w)
	}
	return w, knocks
}

func TestAServerThatIsFoundInItsStackEnrolls(t *testing.T) {
	w, knocks := unnamed(t, func(w *world) error { w.expect(server, instance, true); return nil })
	wantOK(t, w.boot(strings.ToUpper(server)).enroll())
	if *knocks != 1 || w.events[EventNotExpected] != 0 {
		t.Errorf("%d knocks, events %v", *knocks, w.events)
	}
}

func TestAServerThatIsNotInItsStack(t *testing.T) {
	const inside = "heat-7.internal"
	for name, c := range map[string]struct {
		answer error
		says   string
		failed int
	}{
		"looked and found nothing":   {nil, "a look into its stack has not changed that", 0},
		"the stack does not have it": {api.NewProblem(api.ProblemNotFound, inside), "a look into its stack has not changed that", 0},
		"Heat is away":               {api.NewProblem(api.ProblemCloudError, inside), "its stack could not be looked into (the cloud did not give what was asked for)", 1},
		"the machine has hung up":    {context.Canceled, "a look into its stack has not changed that", 0},
		"something else":             {errors.New(inside), "its stack could not be looked into (the controller's log says why)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, knocks := unnamed(t, func(*world) error { return c.answer })
			problem := problemOf(t, w.boot(server).enroll(), api.ProblemServerNotExpected)
			if !strings.Contains(problem.Detail, c.says) || strings.Contains(problem.Detail, inside) {
				t.Errorf("it is told %s", problem.Detail)
			}
			if *knocks != 1 || w.events["discovery failure"] != c.failed || w.events[EventNotExpected] != 1 {
				t.Errorf("%d knocks, events %v", *knocks, w.events)
			}
		})
	}
}

// A knock that failed does not keep out a server that came into the topology meanwhile.
func TestAServerThatIsNamedWhileTheKnockFails(t *testing.T) {
	w, _ := unnamed(t, func(w *world) error {
		w.expect(server, instance, true)
		return api.NewProblem(api.ProblemCloudError, "")
	})
	wantOK(t, w.boot(server).enroll())
}

// Unauthenticated callers cause no discovery, and servers that are expected need not.
func TestWhoDoesNotKnock(t *testing.T) {
	w, knocks := unnamed(t, func(*world) error { return nil })
	wantProblem(t, w.boot(server).enrollWith("no-such.token"), api.ProblemUnauthorized)
	w.expect(server, instance, true)
	wantOK(t, w.boot(server).enroll())
	wantProblem(t, w.boot(server).enroll(), api.ProblemIdentityLive)
	w.restored()
	wantProblem(t, w.boot(server).enroll(), api.ProblemRestoreUnconfirmed)
	if *knocks != 0 {
		t.Errorf("%d knocks", *knocks)
	}
}

// A knock may itself write to the store.
func TestAKnockIsOutsideOfTransactions(t *testing.T) {
	w, _ := unnamed(t, func(w *world) error {
		return w.Store.Update(func(tx *store.Tx) error { return tx.Nodes().Delete("nobody") })
	})
	wantProblem(t, w.boot(server).enroll(), api.ProblemServerNotExpected)
}
