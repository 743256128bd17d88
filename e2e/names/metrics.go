package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/tools/go/packages"

	"github.com/nodehitch/nodehitch/controller/telemetry"
)

// metrics are those of a scrape of the controller's registry, after every counter has
// counted, without client_golang's own of Go and the process.
func metrics(ctx context.Context, s *source) (list []string, err error) {
	families, err := scrape(ctx)
	if err != nil {
		return nil, err
	}
	for name, family := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		first := family.Metric[0]
		labels := make([]string, 0, len(first.Label))
		for _, l := range first.Label {
			labels = append(labels, l.GetName())
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", name, strings.ToLower(family.GetType().String()), strings.Join(once(labels), " "))))
		list = append(list, labelValues(name, family)...)
	}
	s.texts(func(p *packages.Package, name string) {
		if folder(p) == "controller/telemetry" && strings.HasPrefix(name, "nodehitch_") && families[name] == nil {
			err = fmt.Errorf("%s: the code has it, and no scrape", name)
		}
	})
	return list, err
}

// labelValues are the possible values of the labels, if every scrape has each.
func labelValues(name string, family *dto.MetricFamily) (list []string) {
	for _, m := range family.Metric {
		for _, l := range m.Label {
			if len(family.Metric) > 1 && l.GetValue() != "" {
				list = append(list, fmt.Sprintf("%s %s=%s", name, l.GetName(), l.GetValue()))
			}
		}
	}
	return list
}

func scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	m := telemetry.New("")
	countAll(reflect.ValueOf(m))
	m.CollectState(func() (telemetry.State, error) {
		return telemetry.State{NotAfter: map[string]time.Time{"": {}}, NodeNotAfter: time.Unix(1, 0), BackupTakenAt: time.Unix(1, 0),
			LostVNFCs: []telemetry.VNFC{{}}}, nil
	}, time.Now, slog.New(slog.DiscardHandler))
	m.CollectReplica(func() telemetry.Replica { return telemetry.Replica{Live: new(int), Lag: new(time.Duration)} })
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(answer.Body)
}

// countAll calls each method that takes plain values only, with their zero.
func countAll(m reflect.Value) {
	plain := []reflect.Kind{reflect.String, reflect.Int, reflect.Int64, reflect.Bool}
methods:
	for i := range m.NumMethod() {
		f := m.Method(i)
		var arguments []reflect.Value
		for j := range f.Type().NumIn() {
			if !slices.Contains(plain, f.Type().In(j).Kind()) {
				continue methods
			}
			arguments = append(arguments, reflect.Zero(f.Type().In(j)))
		}
		f.Call(arguments)
	}
}
