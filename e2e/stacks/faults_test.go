package stacks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// plainRequest is a cluster without storage, whose machines are containers.
const plainRequest = "testdata/cluster.json"

// TestFaults has the cloud fail in the ways that clouds do, and strangers call.
func TestFaults(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		name, shows string
		do          func(*world, *results.Case)
	}{
		{"another-id", "a machine that claims another server's id gets nothing; the server itself enrols", anotherID},
		{"nova-silent", "while Nova does not answer nobody enrols; when it does the machine enrols by itself", novaSilent},
		{"heat-down", "while Heat is down an operation is refused and says so; nothing has changed", heatDown},
		{"another-project", "a stack of another project is none", anotherProject},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := results.Begin(t, suite, c.name, c.shows)
			w.t = t
			c.do(w, r)
		})
	}
}

// newPlain is a stack of a master and workers that Heat has made. Its servers are no
// machines until the test lets them be.
func (w *world) newPlain(workers int) *vnf {
	w.t.Helper()
	project, err := w.account.ProjectID(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.hyper.leaveOff(project, true)
	v := w.newVNF("simple", plainRequest, clusterPackage, map[string]any{"worker_min": workers, "worker_desired": workers, "worker_max": workers})
	v.create()
	w.t.Cleanup(v.removeAtEnd)
	return v
}

// removeAtEnd deletes the stack after the test.
func (v *vnf) removeAtEnd() {
	if err := v.account.DeleteStack(context.WithoutCancel(v.t.Context()), v.stack); err != nil {
		v.t.Error(err)
	}
	v.until("its machines have ended", func() error {
		if n := len(v.hyper.all()); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
}

// powerOn lets the servers be machines.
func (v *vnf) powerOn() {
	v.t.Helper()
	project, err := v.account.ProjectID(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	v.hyper.leaveOff(project, false)
}

// anotherID boots a machine of nobody's with the user_data, which anything on a server
// can read, and the id of a server that has not booted yet.
func anotherID(w *world, r *results.Case) {
	v := w.newPlain(1)
	servers, err := w.hyper.servers(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	victim := servers[0]
	userData, err := w.cloud.UserData(w.t.Context(), victim.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	stranger, err := w.Lab.Nspawn(w.t.Context(), lab.Spec{Name: "stranger", ServerID: victim.ID, UserData: userData, Metadata: true})
	if err != nil {
		w.t.Fatal(err)
	}
	// It has been told to read the nonce, and has not got it.
	w.until("the stranger is asked for the nonce", func() error {
		out, err := stranger.Exec(w.t.Context(), "nodehitch-agent", "status")
		if err == nil && !strings.Contains(string(out), "metadata") {
			err = fmt.Errorf("its status is %s", out)
		}
		return err
	})
	r.Unauthorised(int64(w.metric(`nodehitch_enrolment_events_total{event="enrolled"}`)))
	if err := stranger.Destroy(); err != nil {
		w.t.Fatal(err)
	}
	v.powerOn()
	v.operate(api.Instantiate)
	v.proven(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
}

// novaSilent has Nova take requests and answer none while the machines call.
func novaSilent(w *world, r *results.Case) {
	v := w.newPlain(1)
	v.operate(api.Instantiate, "--phase=START")
	nova := w.cloud.Service("nova-api")
	// The machines call once there is a controller, and by then Nova is silent.
	if err := w.Stop(); err != nil {
		w.t.Fatal(err)
	}
	v.powerOn()
	w.until("its machines are up", func() error {
		if n := len(w.hyper.all()); n < 2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	if err := errors.Join(nova.Pause(w.t.Context()), w.Start(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
	w.until("an enrolment has been refused for want of the cloud", func() error {
		if w.metric(`nodehitch_enrolment_events_total{event="attest-cloud"}`) == 0 {
			return errors.New("none was")
		}
		return nil
	})
	enrolled := w.metric(`nodehitch_enrolment_events_total{event="enrolled"}`)
	r.Unauthorised(int64(enrolled))
	began := time.Now()
	if err := nova.Resume(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	v.operate(api.Instantiate)
	r.Figure("all Ready after Nova answers again", "%.1f s", time.Since(began).Seconds())
	v.proven(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
}

func heatDown(w *world, _ *results.Case) {
	v := w.newPlain(1)
	heat := w.cloud.Service("heat-api")
	if err := heat.Stop(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.Hitchctl(w.t.Context(), "operate", v.id, string(api.Instantiate))
	if err == nil || !strings.Contains(err.Error(), "orchestration") {
		w.t.Errorf("without Heat: %v; want to be told that it does not answer", err)
	}
	if err := heat.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	var list api.OperationList
	if err := w.JSON(w.t.Context(), &list, "get", "operations", "--instance", v.id); err != nil || len(list.Items) > 0 {
		w.t.Errorf("there are operations: %+v, %v", list.Items, err)
	}
	v.powerOn()
	v.operate(api.Instantiate)
	v.proven(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
}

func anotherProject(w *world, _ *results.Case) {
	mine := w.account
	other, err := w.cloud.NewAccount(w.t.Context(), "other")
	if err != nil {
		w.t.Fatal(err)
	}
	w.account = other
	theirs := w.newPlain(1)
	w.account = mine
	id := uuid.NewString()
	w.hitchctl("apply", id, "-f", plainRequest, "--package", clusterPackage)
	_, err = w.Hitchctl(w.t.Context(), "operate", id, string(api.Instantiate), "--wait", "--stack-id", theirs.stack)
	if err == nil || !strings.Contains(err.Error(), theirs.stack) {
		w.t.Errorf("a stack of another project: %v; want to be told that there is none", err)
	}
}

// metric is the value of one line of the controller's metrics, 0 where there is none.
func (w *world) metric(line string) float64 {
	w.t.Helper()
	return w.metricSum(line, "")
}

// metricSum is the sum of the lines that begin with name and hold the text.
func (w *world) metricSum(name, text string) (sum float64) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return w.Lab.Dial(ctx, network, address)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://127.0.0.1:9090/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, name) && strings.Contains(line, text) && i > 0 {
			value, err := strconv.ParseFloat(line[i+1:], 64)
			if err != nil {
				w.t.Fatalf("%q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}
