package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// budgeted is a Deployment of two Pods, a PodDisruptionBudget that keeps one of them, and a Service
// that each Node answers on a port. A Pod answers until its grace is over, as one that ends in good order:
// longer than it takes until no Node sends it a request any more.
const (
	budgetedPort = "30080"
	budgeted     = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: web
        image: ` + kube.TestImage + `
        command: [sh, -c, "echo open >/index.html; trap '' TERM; busybox httpd -f -p 8080 -h /"]
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: shop}}}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {type: NodePort, selector: {app: shop}, ports: [{port: 80, targetPort: 8080, nodePort: ` + budgetedPort + `}]}
`
)

// prober asks the Service of budgeted ten times a second, each time another Node.
type prober struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu       sync.Mutex
	asked    int
	slowest  time.Duration
	failures []string // each with its time
}

// probe makes the objects of budgeted, and asks the Service until over.
func (w *cluster) probe() *prober {
	w.T.Helper()
	w.apply(budgeted)
	w.kubectl("wait", "--for=condition=Available", "--timeout=2m", "deployment/shop")
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: w.Lab.Dial, DisableKeepAlives: true}}
	nodes := w.Up()
	for _, m := range nodes {
		w.Until(m.Name()+" answers for the Service", func() error { return ask(w.T.Context(), client, m) })
	}
	ctx, cancel := context.WithCancel(w.T.Context())
	p := &prober{cancel: cancel}
	p.all.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// A request that takes long keeps no other one from being made.
				p.all.Go(func() { p.ask(ctx, client, nodes[i%len(nodes)]) })
			}
		}
	})
	return p
}

func (p *prober) ask(ctx context.Context, client *http.Client, m *sitetest.Machine) {
	began := time.Now()
	err := ask(ctx, client, m)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	p.slowest = max(p.slowest, time.Since(began))
	if err != nil {
		p.failures = append(p.failures, fmt.Sprintf("%s, after %.1f s, %s: %v", began.Format(time.TimeOnly), time.Since(began).Seconds(), m.Name(), err))
	}
}

func ask(ctx context.Context, client *http.Client, m *sitetest.Machine) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Server.ConnectionPoints[0].Addresses[0]+":"+budgetedPort, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if said := strings.TrimSpace(string(body)); err == nil && said != "open" {
		err = fmt.Errorf("%s: %q", answer.Status, said)
	}
	return err
}

// over stops asking. No request may have failed.
func (p *prober) over(w *cluster, r *results.Case) {
	w.T.Helper()
	p.cancel()
	p.all.Wait()
	r.Figure("requests to a Service", "%d, %d failed, the slowest took %.1f s", p.asked, len(p.failures), p.slowest.Seconds())
	if p.asked == 0 || len(p.failures) > 0 {
		w.T.Errorf("%d of %d requests failed:\n%s", len(p.failures), p.asked, strings.Join(p.failures, "\n"))
	}
}
