package trust

import (
	"context"
	"crypto/x509"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// target is a controller process with two VNF instances, each of a storage server
// with a volume and a worker.
type target struct {
	*loopback.Controller
	t     testing.TB
	roots *x509.CertPool
	// dial reaches the controller, nil for its address as it is.
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	ours  stack
	other stack
}

// stack is one instance's.
type stack struct {
	instance, storage, worker, volume string
	// spares are workers that have not enrolled.
	spares []string
	token  string
}

// servers are all that the topology of the stack names.
func (s stack) servers() []string { return append([]string{s.storage, s.worker}, s.spares...) }

func newTarget(t testing.TB, o loopback.Options) *target {
	t.Helper()
	w := &target{Controller: loopback.Open(t, o), t: t, roots: x509.NewCertPool()}
	w.roots.AppendCertsFromPEM([]byte(w.Trust().RootCertificate))
	w.ours, w.other = w.newStack(8), w.newStack(1)
	return w
}

// newStack is an instance whose topology has this many workers to spare.
func (w *target) newStack(spares int) stack {
	w.t.Helper()
	s := stack{instance: uuid.NewString(), storage: uuid.NewString(), worker: uuid.NewString(), volume: uuid.NewString()}
	for range spares {
		s.spares = append(s.spares, uuid.NewString())
	}
	w.Put(s.instance, s.topology())
	s.token = w.JoinToken(s.instance)
	return s
}

func (s stack) topology() *api.Topology {
	return loopback.StorageTopology(s.storage, s.volume, 1<<30, s.servers()[1:]...)
}

// spare takes a server that has not enrolled.
func (w *target) spare() string {
	w.t.Helper()
	if len(w.ours.spares) == 0 {
		w.t.Fatal("no server is left")
	}
	id := w.ours.spares[0]
	w.ours.spares = w.ours.spares[1:]
	return id
}

// attempt is one case under way.
type attempt struct {
	*testing.T
	w *target
	c *results.Case
	// asked is how many requests had to be refused, searched how many texts were searched
	// for secrets.
	asked, searched int
}

// begin begins a case, which says at its end how much it has tried.
func begin(t *testing.T, w *target, name, shows string) *attempt {
	t.Helper()
	a := &attempt{T: t, w: w, c: results.Begin(t, "trust", name, shows)}
	t.Cleanup(func() {
		if a.asked > 0 {
			a.c.Figure("requests that had to be refused", "%d", a.asked)
		}
		if a.searched > 0 {
			a.c.Figure("texts searched for secrets", "%d", a.searched)
		}
	})
	return a
}

// trial is a case: what is tried, and what that shows.
type trial struct {
	name, shows string
	try         func(*attempt)
}

// run runs the cases one after the other on the same controller.
func run(t *testing.T, w *target, trials []trial) {
	t.Helper()
	for _, one := range trials {
		t.Run(one.name, func(t *testing.T) {
			one.try(begin(t, w, one.name, one.shows))
		})
	}
}

// refused checks that an answer is a refusal with one of these statuses. Anything
// that a caller can use is an unauthorised answer.
func (a *attempt) refused(what string, got answer, statuses ...int) {
	a.Helper()
	if got.err != nil { // without an answer nothing was refused
		a.Errorf("%s got no answer: %v", what, got.err)
		return
	}
	a.asked++
	a.c.Unauthorised(0)
	if got.status < 400 {
		a.c.Unauthorised(1)
		a.Errorf("%s was answered %d %.300s", what, got.status, got.body)
	} else if !slices.Contains(statuses, got.status) || got.problem.Type == "" {
		a.Errorf("%s: got %d %.300s, want %v with a problem", what, got.status, got.body, statuses)
	}
}

// hungUp checks that the handshake failed, so that no request was made.
func (a *attempt) hungUp(what string, got answer) {
	a.Helper()
	a.asked++
	if got.err == nil {
		a.c.Unauthorised(1)
		a.Errorf("%s was answered %d %.300s", what, got.status, got.body)
		return
	}
	a.c.Unauthorised(0)
}

// allowed checks that an answer is the one that the rightful caller gets.
func (a *attempt) allowed(what string, got answer, status int) {
	a.Helper()
	if got.err != nil || got.status != status {
		a.Fatalf("%s: got %d %.300s (%v), want %d", what, got.status, got.body, got.err, status)
	}
}

// mustNotHold counts every secret that the text holds as an unauthorised answer.
func (a *attempt) mustNotHold(where, text string, secrets map[string]string) {
	a.Helper()
	a.searched++
	a.c.Unauthorised(0)
	for name, secret := range secrets {
		if at := strings.Index(text, secret); at >= 0 {
			a.c.Unauthorised(1)
			a.Errorf("%s holds %s: …%.60q", where, name, text[max(0, at-60):at])
		}
	}
}

// requests are the certificate requests of testdata by name, made with openssl.
func requests(t testing.TB) map[string]string {
	t.Helper()
	const folder = "testdata/requests"
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(folder + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(e.Name(), ".pem")] = string(text)
	}
	return all
}
