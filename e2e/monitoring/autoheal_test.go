package monitoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// The shipped files.
const (
	autohealFile     = "../../packaging/monitoring/autoheal.yaml"
	alertmanagerFile = "../../packaging/monitoring/alertmanager.yml"
	schemaFile       = "testdata/tacker-alert.json"
)

// autohealTimes are how long things take, and what the test puts in the place of shipped times.
type autohealTimes struct {
	poll, grace time.Duration
	// spare is how much longer the test waits for what must not come.
	spare   time.Duration
	replace map[string]string
}

// lost is how long a node is silent until it is lost.
func (a autohealTimes) lost() time.Duration { return 3 * a.poll }

// timesOf are the shipped ones in the full suite, which takes more than an hour.
func timesOf() autohealTimes {
	if os.Getenv(results.EnvSuite) == "full" {
		return autohealTimes{poll: 30 * time.Second, grace: 10 * time.Minute, spare: 4 * time.Minute}
	}
	return autohealTimes{poll: 5 * time.Second, grace: 6 * time.Second, spare: 6 * time.Second,
		replace: map[string]string{"for: 10m": "for: 6s", "group_wait: 30s": "group_wait: 1s", "group_interval: 5m": "group_interval: 1s"}}
}

// read is a shipped file in which these texts are replaced. None of them may be there more than once.
func read(t *testing.T, file string, replace map[string]string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for from, to := range replace {
		if n := strings.Count(text, from); n > 1 {
			t.Fatalf("%q is in %s %d times", from, file, n)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	return text
}

// tacker is what Alertmanager takes for Tacker: it checks what comes, and keeps it.
type tacker struct {
	schema *openapi3.Schema

	mu    sync.Mutex
	posts [][]map[string]string // the labels of the firing alerts of each
	wrong []error
}

func startTacker(t *testing.T) (*tacker, string) {
	t.Helper()
	content, err := os.ReadFile(schemaFile)
	k := &tacker{schema: new(openapi3.Schema)}
	if err := errors.Join(err, json.Unmarshal(content, k.schema)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	return k, server.URL
}

func (k *tacker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || r.URL.Path != "/alert/auto_healing" {
		err = fmt.Errorf("%s %s", r.Method, r.URL)
	}
	labels, faults := k.read(body)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := errors.Join(err, faults); err != nil {
		k.wrong = append(k.wrong, fmt.Errorf("%w: %s", err, body))
	}
	k.posts = append(k.posts, labels)
	w.WriteHeader(http.StatusNoContent) // whatever becomes of it
}

func (k *tacker) read(body []byte) (labels []map[string]string, err error) {
	var raw any
	var message struct {
		Alerts []struct {
			Status string
			Labels map[string]string
		}
	}
	if err := errors.Join(json.Unmarshal(body, &raw), json.Unmarshal(body, &message)); err != nil {
		return nil, err
	}
	for _, a := range message.Alerts {
		if a.Status == "firing" {
			labels = append(labels, a.Labels)
		}
	}
	return labels, k.schema.VisitJSON(raw, openapi3.MultiErrors())
}

// got is what has come.
func (k *tacker) got() (posts [][]map[string]string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.posts, errors.Join(k.wrong...)
}

// startAlertmanager starts Debian's with the shipped example, and returns its address.
func startAlertmanager(t *testing.T, config string) string {
	t.Helper()
	dir, address := t.TempDir(), loopback.FreeAddress(t)
	file := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program(t, "prometheus-alertmanager"), "--config.file="+file,
		"--storage.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--cluster.listen-address=")
	cmd.Stdout, cmd.Stderr = &log, &log
	running, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = running.Process.Signal(syscall.SIGTERM)
		<-running.Ended()
		if t.Failed() {
			t.Logf("Alertmanager has logged:\n%s", &log)
		}
	})
	loopback.Until(t, "Alertmanager is ready", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/-/ready", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	return address
}

// Tacker's schema refuses what Tacker would drop.
func TestTackersSchema(t *testing.T) {
	k, _ := startTacker(t)
	good := `{"alerts":[{"status":"firing","startsAt":"2026-01-01T00:00:00Z","fingerprint":"f","annotations":{},` +
		`"labels":{"receiver_type":"tacker","function_type":"auto_heal","vnf_instance_id":"i","vnfc_info_id":"c"}}]}`
	if _, err := k.read([]byte(good)); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for _, change := range [][2]string{
		{`"tacker"`, `"operators"`}, {`"auto_heal"`, `"auto_scale"`}, {`"vnfc_info_id"`, `"instance"`},
		{`"firing"`, `"pending"`}, {`"annotations":{},`, ``}, {`"fingerprint":"f",`, ``}, {`"i"`, `7`},
	} {
		if _, err := k.read([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s is as good as %s", change[1], change[0])
		}
	}
}

// The rule as shipped, and what Debian's amtool says of the example.
func TestAutohealRule(t *testing.T) {
	c := results.Begin(t, suite, "auto-heal rule", "promtool and amtool accept the rule and the example; with made-up series the rule fires after its time, with Tacker's labels, and a takeover is the same alert")
	promtool(t, "", "check", "rules", autohealFile)
	dir := t.TempDir()
	test, err := os.ReadFile("testdata/autoheal_test.yaml")
	rule := annotations.ReplaceAllString(read(t, autohealFile, nil), "")
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rule), 0o600), os.WriteFile(filepath.Join(dir, "test.yaml"), test, 0o600)); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", filepath.Join(dir, "test.yaml"))
	if out, err := exec.CommandContext(t.Context(), program(t, "amtool"), "check-config", alertmanagerFile).CombinedOutput(); err != nil {
		t.Errorf("amtool: %v\n%s", err, out)
	}
	for _, r := range rulesOf(t, read(t, autohealFile, nil)) {
		page, name, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook"], "docs/"), "#")
		if !anchors(t, page)[name] {
			t.Errorf("%s: %s: no such heading", r.Alert, r.Annotations["runbook"])
		}
		c.Figure("waits", "%s", r.For)
	}
}

// autohealed is two controllers that share an etcd, with Prometheus, Alertmanager and the stand-in for
// Tacker. The machines call the second controller.
type autohealed struct {
	*testing.T
	times         autohealTimes
	prometheus    *prometheus
	tacker        *tacker
	first, second *loopback.Controller
}

func openAutohealed(t *testing.T) *autohealed {
	t.Helper()
	a := &autohealed{T: t, times: timesOf()}
	var url string
	a.tacker, url = startTacker(t)
	replace := maps.Clone(a.times.replace)
	if replace == nil {
		replace = map[string]string{}
	}
	replace["http://tacker.example:9890"] = url
	alertmanager := startAlertmanager(t, read(t, alertmanagerFile, replace))
	a.prometheus = startPrometheus(t, read(t, autohealFile, a.times.replace), alertmanager)
	etcd, key := etcdtest.Open(t, 1), loopback.SealKey(t)
	begin := func(id string) *loopback.Controller {
		settings := loopback.Replica(t, id, key, etcd.Endpoints()...)
		settings["metricsListen"], settings["metricsLostVnfcs"] = loopback.FreeAddress(t), "true"
		settings["pollSeconds"], settings["agentDirectory"] = fmt.Sprint(a.times.poll.Seconds()), loopback.Bin(t)
		c := loopback.Open(t, loopback.Options{Settings: settings})
		a.prometheus.scrape(settings["metricsListen"])
		return c
	}
	a.first, a.second = begin("c1"), begin("c2")
	return a
}

// instance is one with a storage server and three workers, instantiated.
func (a *autohealed) instance() *site {
	a.Helper()
	s := &site{Controller: a.second, t: a.T, prometheus: a.prometheus, instance: uuid.NewString(),
		calls: map[*loopback.Machine]context.CancelFunc{}, every: a.times.poll / 5}
	s.join(3)
	if o := s.Outcome(s.instance, s.Operate(s.instance, api.OperationRequest{Operation: api.Instantiate})); o.State != api.Completed {
		a.Fatalf("INSTANTIATE is %s: %v", o.State, o.Error)
	}
	return s
}

// wait lets the time pass in which something could be posted, and nothing may be.
func (a *autohealed) wait(d time.Duration, posts int, what string) {
	a.Helper()
	over := time.After(d)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if got, err := a.tacker.got(); err != nil || len(got) != posts {
			a.Fatalf("%s: %d requests have come to Tacker, want %d: %v, %v", what, len(got), posts, got, err)
		}
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

// healed is the topology of an instance with a new server in the place of its first worker.
func healed(s *site) (*loopback.Machine, *api.Topology) {
	m := s.Machine(uuid.NewString())
	servers := []string{m.ServerID}
	for _, w := range s.workers[1:] {
		servers = append(servers, w.ServerID)
	}
	return m, s.topology(servers...)
}

// A killed node is healed, once. A restart, a takeover, a partition, an upgrade of an agent, a
// START that waits for its END, a reboot and a storage server have nobody healed.
func TestAutoHeal(t *testing.T) {
	c := results.Begin(t, suite, "auto-heal", "the shipped rule and example in a real Prometheus and Alertmanager: of all that befalls nodes only the killed worker is posted to Tacker, once, as Tacker's schema wants it")
	loopback.RequireRoot(t)
	began := time.Now()
	a := openAutohealed(t)
	times := a.times
	partition, reboot, wave, started, storage, killed := a.instance(), a.instance(), a.instance(), a.instance(), a.instance(), a.instance()

	// A node that is told to become another agent.
	upgraded := wave.workers[0]
	agent := api.ThisAgent("v0.0.1")
	upgraded.Agent = &agent
	config, err := upgraded.Config(t.Context())
	wave.must(err)
	status := loopback.Converged(*config)
	status.Facts.AgentVersion, status.AgentUpgrade = agent.Version, &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: api.UpgradeUpToDate}
	wave.must(upgraded.Report(t.Context(), status))
	wave.must1(client.Read[api.AgentRollout](wave.API.UpgradeAgents(t.Context(), api.AgentUpgradeRequest{})))
	loopback.Until(t, "the node is told to become another agent", func() bool {
		r, err := client.Read[api.AgentRollout](wave.API.GetAgents(t.Context(), nil))
		wave.must(err)
		return len(r.InFlight) == 1
	})
	start := started.Operate(started.instance, api.OperationRequest{Operation: api.Heal, Phase: api.PhaseStart, VnfcInstanceIds: []string{started.workers[0].ServerID}})
	if o := started.Outcome(started.instance, start); o.State != api.Completed {
		t.Fatalf("HEAL START is %s: %v", o.State, o.Error)
	}
	for _, m := range append(partition.workers, partition.storage) {
		partition.silence(m)
	}
	wave.silence(upgraded)
	started.silence(started.workers[0])
	storage.silence(storage.storage)
	reboot.silence(reboot.workers[0])
	a.wait(times.lost()+times.grace/2, 0, "a reboot")
	if len(a.prometheus.query(fmt.Sprintf(`ALERTS{alertname="NodehitchVnfcLost",vnf_instance_id=%q}`, reboot.instance))) == 0 {
		t.Error("the node that reboots is not lost for long enough to be worth a test")
	}
	reboot.live(reboot.workers[0])

	a.first.End(syscall.SIGKILL)
	a.led(a.second)
	a.wait(times.lost()+times.grace+times.spare, 0, "a takeover, a partition, a wave, a START without its END, a lost storage server")
	if lost := a.prometheus.query(`nodehitch_nodes{state="Lost"} == 7`); len(lost) != 1 {
		t.Errorf("7 nodes are silent, and lost are: %v", a.prometheus.query(`nodehitch_nodes{state="Lost"}`))
	}
	a.second.End(syscall.SIGTERM)
	a.second.Start()
	a.led(a.second)
	kill := time.Now()

	lost := killed.workers[0]
	killed.silence(lost)
	until := times.lost() + times.grace + 30*time.Second + times.spare
	loopback.Within(t, until, "the killed node is posted", func() bool { posts, _ := a.tacker.got(); return len(posts) > 0 })
	posted := time.Since(kill)
	posts, err := a.tacker.got()
	if err != nil {
		t.Errorf("Tacker would drop it: %v", err)
	}
	want := [][]map[string]string{{{"alertname": "NodehitchVnfcLost", "receiver_type": "tacker", "function_type": "auto_heal",
		"vnf_instance_id": killed.instance, "vnfc_info_id": "workerNode-" + lost.ServerID}}}
	if diff := cmp.Diff(want, posts); diff != "" {
		t.Fatal(diff)
	}

	// Tacker heals: the driver's START, Heat's new server, the END.
	heal := killed.Operate(killed.instance, api.OperationRequest{Operation: api.Heal, Phase: api.PhaseStart, VnfcInstanceIds: []string{lost.ServerID}})
	if o := killed.Outcome(killed.instance, heal); o.State != api.Completed {
		t.Fatalf("HEAL START is %s: %v", o.State, o.Error)
	}
	a.wait(times.grace+times.spare, 1, "Heat makes the new server")
	replacement, topology := healed(killed)
	heal = killed.Operate(killed.instance, api.OperationRequest{Operation: api.Heal, Topology: topology})
	killed.must(replacement.Enroll(t.Context(), killed.JoinToken(killed.instance)))
	killed.must1(replacement.Converge(t.Context()))
	killed.live(replacement)
	if o := killed.Outcome(killed.instance, heal); o.State != api.Completed {
		t.Fatalf("HEAL END is %s: %v", o.State, o.Error)
	}
	a.wait(times.lost()+times.grace+times.spare, 1, "it is healed")
	c.Figure("without a request for a reboot, a takeover, a restart, a partition, a wave, a START and a lost storage server", "%.0f s", time.Since(began).Seconds())
	c.Figure("from the last call of the killed node to the one request", "%.0f s", posted.Seconds())
}

// led waits until a controller is the leader and serves.
func (a *autohealed) led(c *loopback.Controller) {
	a.Helper()
	loopback.Within(a.T, time.Minute, "a leader serves", func() bool {
		_, err := client.Read[api.AgentRollout](c.API.GetAgents(a.Context(), nil))
		return err == nil
	})
}
