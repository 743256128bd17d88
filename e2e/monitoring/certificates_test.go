package monitoring

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/trust/pki"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

const day = 24 * time.Hour

// installed makes the certificate authority that a controller has which was installed so long
// ago, in a data directory: by the controller's own code, at the clock of that time.
func installed(t *testing.T, data string, ago time.Duration) (root string) {
	t.Helper()
	_, err := pki.Load(pki.Options{Dir: filepath.Join(data, "pki"), Names: []string{"127.0.0.1"},
		Now: func() time.Time { return time.Now().Add(-ago) }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(data, "pki", "root.pem")
}

// rootKey are the operator's mistake with the key of the root, and a node's full disk: the key was
// taken away, which docs/controller.md allows, and not brought back in two years. So the
// intermediate ends in 20 minutes, and all that it signs.
func rootKey(t *testing.T, p *prometheus, m *made) {
	data := t.TempDir()
	root := installed(t, data, 2*365*day-20*time.Minute)
	whole, err := os.ReadFile(root)
	if err != nil {
		t.Fatal(err)
	}
	key, certificate := pem.Decode(whole)
	if key.Type != "PRIVATE KEY" {
		t.Fatalf("%s begins with a %s", root, key.Type)
	}
	if err := os.WriteFile(root, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, p, 0, loopback.Options{Settings: map[string]string{"dataDirectory": data}})
	server, instance := uuid.NewString(), uuid.NewString()
	s.Put(instance, loopback.Workers(func(int, int) string { return server }, 1, 1))
	config := s.AgentConfig(instance)
	config.StateDirectory = t.TempDir()
	agent := loopback.StartAgent(t, loopback.AgentOptions{ServerID: server, Config: config, Wrap: []string{"unshare", "--mount", "--propagation", "private",
		"sh", "-c", `mount -t tmpfs -o size=256k,mode=700 tmpfs "$0" && exec "$@"`, config.StateDirectory}})
	until(t, func() string { return "the agent's node is Ready" }, func() bool { return s.Node(server).Ready })

	s.firesFor("NodehitchControllerCertificateEnds", "certificate", "intermediate", "server")
	s.fired("NodehitchNodeCertificateNotRenewed", "")
	room := fill(t, filepath.Join("/proc", fmt.Sprint(agent.PID()), "root", config.StateDirectory))

	s.End(syscall.SIGTERM)
	s.must(os.WriteFile(root, whole, 0o600))
	s.Start()
	s.over(m, "NodehitchControllerCertificateEnds")
	s.must(s.storage.Renew(t.Context()))
	until(t, func() string { return "the agent says why it renews nothing" }, func() bool {
		return strings.Contains(agent.Status().Controller.RenewalError, "no space left on device")
	})
	s.fires("NodehitchNodeCertificateNotRenewed")
	room()
	s.over(m, "NodehitchNodeCertificateNotRenewed")
	if again := bytes.Count(agent.Log(), []byte("event=node.enrolled")); again != 1 {
		t.Errorf("the agent has enrolled %d times", again)
	}
}

// rootEnds is a controller in the root's last two years, and then another one in its place.
func rootEnds(t *testing.T, p *prometheus, m *made) {
	data := t.TempDir()
	installed(t, data, 18*365*day+30*day)
	s := open(t, p, 0, loopback.Options{Settings: map[string]string{"dataDirectory": data}})
	s.firesFor("NodehitchControllerCertificateEnds", "certificate", "root")
	s.End(syscall.SIGTERM)
	loopback.Open(t, loopback.Options{Settings: map[string]string{"metricsListen": s.target}})
	s.over(m, "NodehitchControllerCertificateEnds")
}

// firesFor waits until an alert fires for these values of a label, and for no others.
func (s *site) firesFor(name, label string, values ...string) {
	s.t.Helper()
	var found string
	until(s.t, func() string { return fmt.Sprintf("%s fires for %v; firing: %s", name, values, found) }, func() bool {
		found = ""
		for _, a := range s.prometheus.firing(name, s.target) {
			found += a.Labels[label] + " "
		}
		return len(strings.Fields(found)) >= len(values)
	})
	for _, value := range values {
		if !strings.Contains(found, value+" ") || len(strings.Fields(found)) != len(values) {
			s.t.Errorf("%s fires for %s, expected %v", name, found, values)
		}
	}
}

// fill fills a filesystem; the function that it returns makes room again.
func fill(t *testing.T, directory string) (room func()) {
	t.Helper()
	ballast := filepath.Join(directory, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}
