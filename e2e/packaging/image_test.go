package packaging

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// A machine whose image has the agent's package becomes a node by user_data with no
// download.
func TestAnImageWithTheAgent(t *testing.T) {
	r := results.Begin(t, suite, "image with the agent", "the first boot of an image with the package needs no download")
	s := sitetest.Open(t, bin, lab.KindNspawn)
	n := newWorker(t, s, "worker", true)
	n.mustInstall(t, n.push(t, current(t).deb(t, agentPackage))...)
	n.boots(t)
	first := n.converged(t, running{})
	if first.program != install.PackagedBinary {
		t.Errorf("%s runs", first.program)
	}
	n.onlyPackaged(t)
	if results.Full() {
		n.losesItsConfiguration(t, first)
		n.staysRemoved(t)
	}
	count := downloads(t, s)
	r.Figure("downloads of the agent", "%.0f", count)
	if count != 0 {
		t.Errorf("the agent was downloaded %.0f times", count)
	}
	// One would have been counted, once it is over.
	download(t, s)
	sitetest.Until(t, "one download is counted", func() error {
		if count := downloads(t, s); count != 1 {
			return fmt.Errorf("%.0f are", count)
		}
		return nil
	})
}

// losesItsConfiguration is a power cut before what cloud-init wrote has reached the disk:
// the next boot writes it again.
func (n *node) losesItsConfiguration(t *testing.T, before running) {
	t.Helper()
	n.run(t, "sh", "-euc", ": >/etc/nodehitch/agent.yaml; sync")
	n.reboot(t)
	if again := n.converged(t, before); again.certificate != before.certificate {
		t.Errorf("the node has enrolled again: certificate %s, before %s", again.certificate, before.certificate)
	}
}

// staysRemoved removes the package: the next boot brings no other agent.
func (n *node) staysRemoved(t *testing.T) {
	t.Helper()
	n.mustSay(t, "apt-get", "remove", "--yes", agentPackage)
	n.reboot(t)
	const bootstrap = "nodehitch-bootstrap.service"
	sitetest.Until(t, "systemd has come to the bootstrap", func() error {
		if at := n.state(t, bootstrap, "ConditionTimestampMonotonic"); at == "0" {
			return errors.New("it has not")
		}
		return nil
	})
	if met := n.state(t, bootstrap, "ConditionResult"); met != "no" {
		t.Errorf("the bootstrap runs on a machine whose package was removed: %s", met)
	}
	n.onlyPackaged(t)
}

// onlyPackaged asserts that the machine has no unpackaged agent.
func (n *node) onlyPackaged(t *testing.T) {
	t.Helper()
	for _, path := range []string{install.Binary, "/etc/systemd/system/" + install.Unit} {
		if _, err := n.Exec(t.Context(), "test", "!", "-e", path); err != nil {
			t.Errorf("the bootstrap has installed an unpackaged agent: %v", err)
		}
	}
}

// boots makes the machine an image, and boots the image with user_data: cloud-init forgets
// the machine and finds new data.
func (n *node) boots(t *testing.T) {
	t.Helper()
	n.run(t, "cloud-init", "clean")
	if err := n.Push(t.Context(), "/var/lib/cloud/seed/nocloud/user-data", 0o600, n.userData); err != nil {
		t.Fatal(err)
	}
	n.reboot(t)
}

// downloads is how many agents the controller was asked for.
func downloads(t *testing.T, s *site.Site) (count float64) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8643/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: s.Lab.Dial, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "nodehitch_http_requests_total{") || !strings.Contains(name, `operation="getAgent"`) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		count += n
	}
	return count
}

// download asks for the agent.
func download(t *testing.T, s *site.Site) {
	t.Helper()
	controller, err := s.API()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := controller.GetAgent(t.Context(), "x86_64", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET /v1/agent/x86_64: %s, %v", answer.Status, err)
	}
}
