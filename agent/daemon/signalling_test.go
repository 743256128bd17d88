package daemon_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/connection/heatsignal"
)

// stack is one whose wait condition waits for the machine.
func stack(t *testing.T) (url string, signals func() []heatsignal.Signal) {
	var mu sync.Mutex
	var got []heatsignal.Signal
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var signal heatsignal.Signal
		if err := json.NewDecoder(r.Body).Decode(&signal); err != nil || r.Method != http.MethodPost || r.Header.Get("X-Auth-Token") != "hunter2" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		signal.Data = ""
		got = append(got, signal)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/p/stacks/s/id/resources/signal/signal", func() []heatsignal.Signal {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

func TestHeatIsToldThatTheMachineHasConverged(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	var signals func() []heatsignal.Signal
	n.heatURL, signals = stack(t)
	n.work.wait = true
	stop := n.start()
	until(t, "the device is waited for", func() bool { return len(c.last().Conditions) > 1 })
	if got := signals(); len(got) != 0 {
		t.Errorf("told while the machine waits: %v", got)
	}
	n.work.change(func() { n.work.wait = false })
	c.give(2, 1, "")
	until(t, "Ready", n.ready(c, 2))
	want := []heatsignal.Signal{{Status: "SUCCESS", Reason: "converged to generation 2", ID: server}}
	until(t, "signalled Heat", func() bool { _, err := n.state().Read("heat-signal.json"); return err == nil })
	if diff := cmp.Diff(want, signals()); diff != "" {
		t.Error(diff)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	n.start()
	c.give(3, 1, "")
	until(t, "Ready after a restart", n.ready(c, 3))
	if diff := cmp.Diff(want, signals()); diff != "" {
		t.Errorf("told again after a restart: %s", diff)
	}
}

func TestHeatIsToldWhatFailed(t *testing.T) {
	c := newController(t)
	c.give(1, 1, "")
	n := newNode(t, c)
	var signals func() []heatsignal.Signal
	n.heatURL, signals = stack(t)
	n.work.fail = 1
	n.start()
	until(t, "signalled Heat", func() bool { return len(signals()) > 0 })
	want := []heatsignal.Signal{{Status: "FAILURE", Reason: "VolumesMounted: ForeignData: the other disk is not blank", ID: server}}
	if diff := cmp.Diff(want, signals()); diff != "" {
		t.Error(diff)
	}
}
