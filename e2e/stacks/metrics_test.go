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
	w.T.Helper()
	return w.metricSum(line, "")
}

// enrolled is absent from the metrics until a server has enrolled.
const enrolled = `nodehitch_enrollments_total{result="enrolled"}`

// noneEnrolled counts the enrollments that should have been refused.
func (w *world) noneEnrolled(r *results.Case) {
	w.T.Helper()
	let, refused := w.metric(enrolled), w.metricSum("nodehitch_enrollments_total", `result="attest_`)
	if let+refused == 0 {
		w.T.Fatal("the metrics have no enrollment, granted or refused")
	}
	r.Unauthorised(int64(let))
	r.Figure("enrollments that had to be refused", "%.0f", let+refused)
}

// someEnrolled checks that the metrics have an enrollment when there was one; otherwise
// noneEnrolled would show nothing.
func (w *world) someEnrolled() {
	w.T.Helper()
	if w.metric(enrolled) == 0 {
		w.T.Error("the metrics have no enrollment")
	}
}

// metricSum is the sum of the lines that begin with name and hold the text.
func (w *world) metricSum(name, text string) (sum float64) {
	w.T.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return w.Lab.Dial(ctx, network, address)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, "http://127.0.0.1:8643/metrics", nil)
	if err != nil {
		w.T.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		w.T.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if i := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, name) && strings.Contains(line, text) && i > 0 {
			value, err := strconv.ParseFloat(line[i+1:], 64)
			if err != nil {
				w.T.Fatalf("%q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}
