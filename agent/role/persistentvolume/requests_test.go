package persistentvolume_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Every master's agent sends these requests for the whole life of the cluster.
func TestAConvergedPassAsksOnce(t *testing.T) {
	r := master(t, "pv1", "pv2", "pv3")
	r.foreign("theirs", server)
	r.expect("True Registered")
	r.asked("list", "apply pv1", "apply pv2", "apply pv3", "list", "try pv1", "try pv2", "try pv3")
	for range 3 {
		r.expect("True Registered")
		r.asked("list")
	}
	r.api.bind("pv2", "default", "data")
	r.expect("True Registered", "pv2 Bound")
	r.asked("list", "try pv2")
	r.expect("True Registered")
	r.asked("list")

	r.manifests(manifest("pv1", server), strings.Replace(manifest("pv2", server), `"tier": "data"`, `"tier": "more"`, 1))
	r.expect("True Registered")
	r.asked("list", "try pv2", "apply pv2", "delete pv3", "get pv3", "list", "try pv2")
	r.expect("True Registered")
	r.asked("list")
	r.restart(5 * time.Second)
	r.expect("True Registered")
	r.asked("list", "try pv1", "try pv2")
	r.absent()
	r.expect("False InUse")
	r.asked("list")
}

// What is known of a cluster is not known of another.
func TestAnotherClusterIsAskedAnew(t *testing.T) {
	r := master(t, "pv1")
	r.expect("True Registered")
	r.api.asked = nil
	r.setKubeconfig(strings.Replace(r.api.kubeconfig(), "127.0.0.1", "localhost", 1))
	r.expect("False ClusterNotInstalled") // the certificate is for example.com and 127.0.0.1
	r.setKubeconfig(r.api.kubeconfig() + "preferences: {colors: true}\n")
	r.expect("True Registered")
	r.asked("list", "try pv1")
}

// More volumes than one answer has; ours are on the last page.
func TestAListOfManyPages(t *testing.T) {
	r := master(t, "z1", "z2")
	for i := range 1001 {
		r.foreign(fmt.Sprintf("theirs-%04d", i), "192.0.2.1")
	}
	r.expect("True Registered", "z1 Available, z2 Available")
	r.asked("list", "list", "list", "apply z1", "apply z2", "list", "list", "list", "try z1", "try z2")
	r.manifests(manifest("z1", server))
	r.expect("True Registered")
	r.api.bind("theirs-1000", "default", "data")
	r.api.change("theirs-1000", func(v object) { spec(v)["nfs"] = object{"server": server, "path": "/x"} })
	r.absent()
	r.expect("False InUse", "theirs-1000")
}

// The pages after the first are of a moment that the server keeps for some minutes.
func TestAListThatExpiresIsTakenAgainLater(t *testing.T) {
	r := master(t, "z1")
	for i := range 501 {
		r.foreign(fmt.Sprintf("theirs-%04d", i), "192.0.2.1")
	}
	lists := 0
	r.api.before = func(request string) {
		if lists++; lists == 2 {
			r.api.refusal["list"] = func(w http.ResponseWriter) { refuse(w, http.StatusGone, "Expired", "too old") }
		}
	}
	r.expect("False Converging")
	r.api.before, r.api.refusal = nil, nil
	r.expect("True Registered")
}

// Each request may take its whole limit, so that the first without an answer is the last.
func TestActionsAfterOneWithoutAnAnswerAskNothing(t *testing.T) {
	r := master(t, "pv1", "pv2", "pv3")
	r.api.before = func(request string) {
		if request == "apply pv2" {
			r.api.refusal["apply pv2"] = cut
			r.api.refusal["list"] = func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "not now") }
		}
	}
	r.expect("False ClusterNotInstalled", "does not answer")
	r.asked("list", "apply pv1", "apply pv2", "list")
	r.api.before, r.api.refusal = nil, nil
	r.expect("True Registered", "pv1 Available, pv2 Available, pv3 Available")
}

// The API server did what it was asked to and died before it said so.
func TestAnAnswerThatIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		lost   string
		before func(r *rig)
	}{
		"of registering": {"apply pv2", func(*rig) {}},
		"of withdrawing": {"delete pv2", func(r *rig) { r.expect("True Registered"); r.absent() }},
		"of a stray":     {"delete pv2", func(r *rig) { r.expect("True Registered"); r.manifests(manifest("pv1", server)) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := master(t, "pv1", "pv2")
			c.before(r)
			r.api.afterwards = map[string]func(http.ResponseWriter){c.lost: cut}
			r.pass()
			r.api.afterwards, r.api.did = nil, nil
			if report := r.pass(); !report.Converged() {
				t.Errorf("the conditions are %+v", report.Conditions)
			}
			r.did()
		})
	}
}

// cut ends the connection in place of an answer.
func cut(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// The server is in its last seconds: it asks to come again later, which a pass has no
// time for.
func TestAServerThatAsksToComeLaterIsNotWaitedForLong(t *testing.T) {
	r := master(t, "pv1")
	r.api.refusal["list"] = func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		refuse(w, http.StatusTooManyRequests, "TooManyRequests", "The apiserver is shutting down, please try again later.")
	}
	r.restart(200 * time.Millisecond)
	began := time.Now()
	r.expect("False ClusterNotInstalled", "please try again later")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
