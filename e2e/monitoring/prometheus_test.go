package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
)

// The shipped files.
const (
	alertsFile    = "../../packaging/monitoring/alerts.yaml"
	dashboardFile = "../../packaging/monitoring/dashboard.json"
)

// program is one of Debian's packages prometheus and prometheus-alertmanager. Without it the test
// is skipped, or fails if NODEHITCH_LAB=required.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	refuse := t.Skipf
	if os.Getenv("NODEHITCH_LAB") == "required" {
		refuse = t.Fatalf
	}
	refuse("%s is not installed: apt-get install prometheus prometheus-alertmanager", name)
	return ""
}

// prometheus is a Prometheus that scrapes what is told to, with the shipped rules made quick.
type prometheus struct {
	t   testing.TB
	dir string
	url string

	mu      sync.Mutex
	targets []string
}

// config scrapes and evaluates so often that a test need not wait long.
const config = `global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: nodehitch
    file_sd_configs: [{files: [targets.json]}]
`

// startPrometheus starts it with these rules. It sends alerts to these Alertmanagers.
func startPrometheus(t *testing.T, rules string, alertmanagers ...string) *prometheus {
	t.Helper()
	binary, address := program(t, "prometheus"), loopback.FreeAddress(t)
	p := &prometheus{t: t, dir: t.TempDir(), url: "http://" + address}
	p.write("prometheus.yaml", config+fmt.Sprintf("alerting: {alertmanagers: [{static_configs: [{targets: [%s]}]}]}\n", strings.Join(alertmanagers, ", ")))
	p.write("rules.yaml", rules)
	p.write("targets.json", "[]")
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--config.file="+filepath.Join(p.dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(p.dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = log, log
	running, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = running.Process.Signal(syscall.SIGTERM)
		<-running.Ended()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("Prometheus has logged:\n%s", text)
		}
	})
	loopback.Until(t, "Prometheus is ready", func() bool {
		select {
		case <-running.Ended():
			t.Fatal("Prometheus has ended")
		default:
		}
		_, err := p.get("/api/v1/alerts", nil)
		return err == nil
	})
	return p
}

func (p *prometheus) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	// By a rename: Prometheus reads a file as soon as it changes.
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		p.t.Fatal(err)
	}
}

// scrape adds a target.
func (p *prometheus) scrape(address string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = append(p.targets, address)
	text, err := json.Marshal([]map[string]any{{"targets": p.targets}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("targets.json", string(text))
}

// get asks the API and returns what it calls data.
func (p *prometheus) get(path string, query url.Values) (json.RawMessage, error) {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return nil, errors.New(answer.Error)
	}
	return answer.Data, nil
}

func ask[T any](p *prometheus, path string, query url.Values) T {
	p.t.Helper()
	var out T
	data, err := p.get(path, query)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		p.t.Fatalf("%s %v: %v", path, query, err)
	}
	return out
}

// alert is one that is pending or firing.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// firing are the alerts of this name that fire for a target.
func (p *prometheus) firing(name, instance string) []alert {
	p.t.Helper()
	all := ask[struct{ Alerts []alert }](p, "/api/v1/alerts", nil).Alerts
	return slices.DeleteFunc(all, func(a alert) bool {
		return a.State != "firing" || a.Labels["alertname"] != name || a.Labels["instance"] != instance
	})
}

// names are the alerts that fire for a target.
func (p *prometheus) names(instance string) string {
	p.t.Helper()
	var names []string
	for _, a := range ask[struct{ Alerts []alert }](p, "/api/v1/alerts", nil).Alerts {
		if a.State == "firing" && a.Labels["instance"] == instance {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// sample is one of a query's answer.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

// query is the answer to an expression, now.
func (p *prometheus) query(expr string) []sample {
	p.t.Helper()
	return ask[struct{ Result []sample }](p, "/api/v1/query", url.Values{"query": {expr}}).Result
}

// series are those that a selector has selected at any time.
func (p *prometheus) series(selector string) []map[string]string {
	p.t.Helper()
	return ask[[]map[string]string](p, "/api/v1/series", url.Values{"match[]": {selector}})
}
