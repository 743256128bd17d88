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
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const suite = "openstack"

// world is an OpenStack, a controller that observes it with the rights that the
// documentation names, and a lab that is its hypervisor.
type world struct {
	*sitetest.World
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
	w := &world{World: &sitetest.World{T: t}, network: openstack.Network, cloud: openstacktest.Open(t, l, openstack.Options{Settings: settings})}
	var err error
	if w.account, err = w.cloud.NewAccount(t.Context(), "tenant"); err != nil {
		t.Fatal(err)
	}
	clouds := w.cloudsFile(l.Dir(), w.account)
	w.Site = sitetest.OpenIn(t, l, loopback.Bin(t), fmt.Sprintf("openstack: {cloud: lab, cloudsFile: %s, vimConnectionInfo: true}", clouds))
	return w
}

// cloudsFile writes a clouds.yaml for the controller, with an application credential
// that may do what docs/access-rules.json says.
func (w *world) cloudsFile(dir string, account *openstack.Account) string {
	w.T.Helper()
	var rules []openstack.AccessRule
	text, err := os.ReadFile("../../docs/access-rules.json")
	if err == nil {
		err = json.Unmarshal(text, &rules)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	id, secret, err := account.ApplicationCredential(w.T.Context(), "nodehitch", rules...)
	if err != nil {
		w.T.Fatal(err)
	}
	path := filepath.Join(dir, "clouds.yaml")
	content := fmt.Sprintf(`clouds:
  lab:
    auth_type: v3applicationcredential
    region_name: RegionOne
    auth: {auth_url: %q, application_credential_id: %q, application_credential_secret: %q}
`, openstack.AuthURL, id, secret)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.T.Fatal(err)
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
	whole := w.T
	for _, s := range steps {
		ok := whole.Run(s.name, func(t *testing.T) {
			r := results.Begin(t, suite, s.name, s.shows)
			w.T = t
			began := time.Now()
			s.do(r)
			r.Figure("total", "%.1f s", time.Since(began).Seconds())
		})
		if !ok {
			whole.Fatalf("after %s the next step cannot run", s.name)
		}
	}
}

func (w *world) readJSON(path string, into any) {
	w.T.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		w.T.Fatal(err)
	}
}
