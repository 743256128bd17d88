package stacks

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// metric is the value of one line of the controller's metrics, 0 where there is none.
func (w *world) metric(line string) float64 {
	w.t.Helper()
	return w.metricSum(line, "")
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
