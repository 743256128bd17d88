package stacks

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// metric is the value of one line of the controller's metrics, 0 if there is none.
func (w *world) metric(line string) float64 {
	w.t.Helper()
	return w.metricSum(line, "")
}

// enrolled is absent from the metrics until somebody has enrolled.
const enrolled = `nodehitch_enrollments_total{result="enrolled"}`

// noneEnrolled counts who has enrolled where all had to be refused.
func (w *world) noneEnrolled(r *results.Case) {
	w.t.Helper()
	let, refused := w.metric(enrolled), w.metricSum("nodehitch_enrollments_total", `result="attest_`)
	if let+refused == 0 {
		w.t.Fatal("the metrics know of no enrollment, good or refused")
	}
	r.Unauthorised(int64(let))
	r.Figure("enrollments that had to be refused", "%.0f", let+refused)
}

// someEnrolled says that the metrics know of an enrollment when there was one, without
// which noneEnrolled shows nothing.
func (w *world) someEnrolled() {
	w.t.Helper()
	if w.metric(enrolled) == 0 {
		w.t.Error("the metrics know of nobody who has enrolled")
	}
}

// metricSum is the sum of the lines that begin with name and hold the text.
func (w *world) metricSum(name, text string) (sum float64) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return w.Lab.Dial(ctx, network, address)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://127.0.0.1:9090/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, name) && strings.Contains(line, text) && i > 0 {
			value, err := strconv.ParseFloat(line[i+1:], 64)
			if err != nil {
				w.t.Fatalf("%q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}
