package stacks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// plainRequest is a cluster without storage, whose machines are containers.
const plainRequest = "testdata/cluster.json"

// TestFaults tests failures of the cloud, and unauthorised machines and stacks.
func TestFaults(t *testing.T) {
	// Heat asks Keystone about each token that it is shown.
	w := newWorld(t, map[string]string{"heat": "[keystone_authtoken]\ntoken_cache_time = -1"})
	for _, c := range []struct {
		name, shows string
		do          func(*world, *results.Case)
	}{
		{"another-id", "a machine that claims another server's id gets nothing; the server itself enrolls", anotherID},
		{"nova-silent", "while Nova does not answer no server enrolls; when it answers again the machine enrolls", novaSilent},
		{"heat-down", "while Heat is down an operation is refused with that reason; nothing is changed", heatDown},
		{"heat-503", "while Heat answers 503 an operation is refused after several attempts, with that reason; nothing is changed", heat503},
		{"another-project", "a stack of another project is not found, until a request has a credential of that project", anotherProject},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := results.Begin(t, suite, c.name, c.shows)
			w.T = t
			c.do(w, r)
		})
	}
}

// newPlain is a stack of a master and workers that Heat has made. Its servers have no
// machines until powerOn.
func (w *world) newPlain(workers int) *vnf {
	w.T.Helper()
	project, err := w.account.ProjectID(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	w.hyper.leaveOff(project, true)
	v := w.newVNF("simple", plainRequest, clusterPackage, map[string]any{"worker_min": workers, "worker_desired": workers, "worker_max": workers})
	v.create()
	w.T.Cleanup(v.removeAtEnd)
	return v
}

// removeAtEnd deletes the stack after the test.
func (v *vnf) removeAtEnd() {
	if err := v.account.DeleteStack(context.WithoutCancel(v.T.Context()), v.stack); err != nil {
		v.T.Error(err)
	}
	v.Until("its machines have ended", func() error {
		if n := len(v.hyper.all()); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
}

// powerOn boots a machine for each server.
func (v *vnf) powerOn() {
	v.T.Helper()
	project, err := v.account.ProjectID(v.T.Context())
	if err != nil {
		v.T.Fatal(err)
	}
	v.hyper.leaveOff(project, false)
}

// novaSilent makes Nova accept requests and answer none while the machines call.
func novaSilent(w *world, r *results.Case) {
	v := w.newPlain(1)
	v.operate(api.Instantiate, "--phase=START")
	nova := w.cloud.Service("nova-api")
	// The machines call once there is a controller, and by then Nova is silent.
	if err := w.Stop(); err != nil {
		w.T.Fatal(err)
	}
	v.powerOn()
	w.Until("its machines are up", func() error {
		if n := len(w.hyper.all()); n < 2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	if err := errors.Join(nova.Pause(w.T.Context()), w.Start(w.T.Context())); err != nil {
		w.T.Fatal(err)
	}
	w.Until("an enrollment has been refused because the cloud does not answer", func() error {
		if w.metric(`nodehitch_enrollments_total{result="attest_cloud"}`) == 0 {
			return errors.New("none was")
		}
		return nil
	})
	w.noneEnrolled(r)
	began := time.Now()
	if err := nova.Resume(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	v.operate(api.Instantiate)
	r.Figure("all Ready after Nova answers again", "%.1f s", time.Since(began).Seconds())
	v.attested(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
	w.someEnrolled()
}

func heatDown(w *world, _ *results.Case) {
	w.newPlain(1).outlives("heat-api", "connection refused")
}

// heat503 stops Keystone, so Heat answers 503. The controller's own token is valid.
func heat503(w *world, r *results.Case) {
	v := w.newPlain(1)
	v.operate(api.Instantiate, "--phase=START")
	attempts := func() float64 {
		return w.metricSum("nodehitch_cloud_requests_total", `code="503",service="orchestration"`)
	}
	before := attempts()
	v.outlives("keystone", "503")
	made := attempts() - before
	r.Figure("attempts at the call", "%.0f", made)
	if made < 2 {
		w.T.Errorf("%.0f attempts; want several", made)
	}
}

// outlives ends a service, begins an operation, whose refusal has to name Heat's failure,
// and starts the service again.
func (v *vnf) outlives(name, failure string) {
	w := v.world
	w.T.Helper()
	var before, after api.OperationList
	service := w.cloud.Service(name)
	if err := errors.Join(w.JSON(w.T.Context(), &before, "get", "operations", "--instance", v.id), service.Stop(w.T.Context())); err != nil {
		w.T.Fatal(err)
	}
	_, err := w.Hitchctl(w.T.Context(), "operate", v.id, string(api.Instantiate))
	if err == nil || !strings.Contains(err.Error(), "orchestration") || !strings.Contains(err.Error(), failure) {
		w.T.Errorf("without %s: %v; want to be told of Heat: %s", name, err, failure)
	}
	if err := service.Start(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	if err := w.JSON(w.T.Context(), &after, "get", "operations", "--instance", v.id); err != nil || len(after.Items) != len(before.Items) {
		w.T.Errorf("there are operations: %+v, %v; before there were %d", after.Items, err, len(before.Items))
	}
	v.powerOn()
	v.operate(api.Instantiate)
	v.attested(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
}
