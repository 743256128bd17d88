package stacks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const suite = "openstack"

// world is an OpenStack, a controller that observes it with the rights that the
// documentation names, and a lab that is its hypervisor.
type world struct {
	t *testing.T
	*site.Site
	cloud   *openstack.Cloud
	account *openstack.Account
	network string // of the machines
	hyper   *hypervisor
}

// newWorld is for one test and goes with it. settings are added to the configuration of
// OpenStack's services, see openstack.Options.
func newWorld(t *testing.T, settings map[string]string) *world {
	t.Helper()
	w := newEmptyWorld(t, settings)
	w.hyper = newHypervisor(t, w.Lab, w.cloud)
	return w
}

// newEmptyWorld is one in which no server becomes a machine.
func newEmptyWorld(t *testing.T, settings map[string]string) *world {
	t.Helper()
	openstacktest.Require(t)
	l := labtest.Open(t, lab.KindNspawn, lab.KindVM)
	if err := l.BuildImages(t.Context(), lab.KindNspawn, lab.KindVM); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, network: openstack.Network, cloud: openstacktest.Open(t, l, openstack.Options{Settings: settings})}
	var err error
	if w.account, err = w.cloud.NewAccount(t.Context(), "tenant"); err != nil {
		t.Fatal(err)
	}
	clouds := w.cloudsFile(l.Dir(), w.account)
	w.Site, err = site.Open(t.Context(), l, bin(), fmt.Sprintf("openstack: {cloud: lab, cloudsFile: %s, vimConnectionInfo: true}", clouds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, err := os.ReadFile(w.LogFile())
			t.Logf("the controller's log ends with (%v):\n%s", err, log[max(0, len(log)-20000):])
		}
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// bin is the folder of the built binaries, which NODEHITCH_BIN may name.
func bin() string {
	if named := os.Getenv("NODEHITCH_BIN"); named != "" {
		return named
	}
	return "../../bin"
}

// cloudsFile writes a clouds.yaml for the controller, with an application credential
// that may do what docs/access-rules.json says.
func (w *world) cloudsFile(dir string, account *openstack.Account) string {
	w.t.Helper()
	var rules []openstack.AccessRule
	text, err := os.ReadFile("../../docs/access-rules.json")
	if err == nil {
		err = json.Unmarshal(text, &rules)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	id, secret, err := account.ApplicationCredential(w.t.Context(), "nodehitch", rules...)
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(dir, "clouds.yaml")
	content := fmt.Sprintf(`clouds:
  lab:
    auth_type: v3applicationcredential
    region_name: RegionOne
    auth: {auth_url: %q, application_credential_id: %q, application_credential_secret: %q}
`, openstack.AuthURL, id, secret)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// step is one of a case in which each needs what those before it have left.
type step struct {
	name, shows string
	do          func(*results.Case)
}

// inOrder runs the steps, until one fails.
func (w *world) inOrder(steps ...step) {
	whole := w.t
	for _, s := range steps {
		ok := whole.Run(s.name, func(t *testing.T) {
			r := results.Begin(t, suite, s.name, s.shows)
			w.t = t
			began := time.Now()
			s.do(r)
			r.Figure("total", "%.1f s", time.Since(began).Seconds())
		})
		if !ok {
			whole.Fatalf("after %s the next step cannot run", s.name)
		}
	}
}

// hitchctl runs hitchctl, which has to succeed, and returns what it printed.
func (w *world) hitchctl(args ...string) string {
	w.t.Helper()
	out, err := w.Hitchctl(w.t.Context(), args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

// until calls wrong until it returns no error, and fails the test in the end.
func (w *world) until(what string, wrong func() error) {
	w.t.Helper()
	sitetest.Until(w.t, what, wrong)
}

func (w *world) readJSON(path string, into any) {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// writeJSON writes a file that goes with the test.
func (w *world) writeJSON(value any) (path string) {
	w.t.Helper()
	path = filepath.Join(w.t.TempDir(), "request.json")
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}
