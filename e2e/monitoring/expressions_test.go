package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// panel is one of the dashboard; a row has none of this.
type panel struct {
	Title, Description string
	Targets            []struct{ Expr, LegendFormat string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var d struct{ Panels []panel }
	text, err := os.ReadFile(dashboardFile)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

// variables are what Grafana puts in.
var variables = strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m")

// expressions are asked of the Prometheus that has seen each fault: no expression names a metric
// or a label that no controller has, and each panel has data or says when it has none.
func expressions(t *testing.T, c *results.Case, p *prometheus) {
	t.Helper()
	count, empty := 0, []string{}
	for _, r := range rulesOf(t, shipped(t)) {
		count++
		known(t, p, r.Alert, r.Expr)
	}
	c.Figure("expressions of alerts, each metric and label scraped", "%d", count)
	count = 0
	for _, panel := range panels(t) {
		data := len(panel.Targets) == 0
		for _, target := range panel.Targets {
			count++
			expr := variables.Replace(target.Expr)
			known(t, p, panel.Title, expr)
			result := p.query(expr)
			data = data || len(result) > 0
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if len(result) > 0 && result[0].Metric[label[1]] == "" {
					t.Errorf("%s: its legend has %s, its data has not: %v", panel.Title, label[1], result[0].Metric)
				}
			}
		}
		if !data {
			empty = append(empty, panel.Title)
			if !strings.Contains(panel.Description, "No data:") && !strings.Contains(panel.Description, "Gaps:") {
				t.Errorf("the panel %q has no data, and does not say when", panel.Title)
			}
		}
	}
	c.Figure("queries of the dashboard", "%d; panels without data that say so: %d %v", count, len(empty), empty)
}

// known checks each metric and label of an expression against what was scraped.
func known(t *testing.T, p *prometheus, name, expr string) {
	t.Helper()
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	_ = walk(tree, func(node parser.Expr, labels []string) {
		switch e := node.(type) {
		case *parser.AggregateExpr:
			unknown(t, name, e.Grouping, labels)
		case *parser.BinaryExpr:
			if e.VectorMatching != nil && e.VectorMatching.On {
				unknown(t, name, e.VectorMatching.MatchingLabels, labels)
			}
		}
	}, func(s *parser.VectorSelector) []string {
		plain := parser.VectorSelector{Name: s.Name, LabelMatchers: s.LabelMatchers}
		series := p.series(plain.String())
		if len(series) == 0 {
			t.Errorf("%s: no controller has %s", name, plain.String())
			return nil
		}
		var labels []string
		for label := range series[0] {
			labels = append(labels, label)
		}
		for _, m := range s.LabelMatchers {
			unknown(t, name, []string{m.Name}, append(labels, "__name__"))
		}
		return labels
	})
}

// walk visits an expression from its leaves on. selector gives the labels that a selector has;
// visit gets those of all that are below.
func walk(node parser.Node, visit func(parser.Expr, []string), selector func(*parser.VectorSelector) []string) (labels []string) {
	if s, ok := node.(*parser.VectorSelector); ok {
		return selector(s)
	}
	for _, child := range parser.Children(node) {
		for _, label := range walk(child, visit, selector) {
			if !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
		}
	}
	if e, ok := node.(parser.Expr); ok {
		visit(e, labels)
	}
	return labels
}

func unknown(t *testing.T, name string, used, there []string) {
	t.Helper()
	for _, label := range used {
		if !slices.Contains(there, label) {
			t.Errorf("%s: it uses the label %s; the metrics have %v", name, label, there)
		}
	}
}

// The expressions of the two files are PromQL, and the annotations name labels that their
// expressions keep: no Prometheus is needed to see that.
func TestExpressions(t *testing.T) {
	c := results.Begin(t, suite, "expressions", "each expression of the rules and of the dashboard is PromQL; the dashboard has one data source and no panel in the place of another")
	all := 0
	for _, r := range rulesOf(t, shipped(t)) {
		if _, err := parser.ParseExpr(r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		all++
	}
	ids := map[string]bool{}
	for _, panel := range panels(t) {
		if ids[panel.Title] {
			t.Errorf("two panels are called %s", panel.Title)
		}
		ids[panel.Title] = true
		for _, target := range panel.Targets {
			if _, err := parser.ParseExpr(variables.Replace(target.Expr)); err != nil {
				t.Errorf("%s: %v", panel.Title, err)
			}
			if !strings.Contains(target.Expr, `instance=~"$instance"`) {
				t.Errorf("%s shows every controller: %s", panel.Title, target.Expr)
			}
			all++
		}
	}
	c.Figure("expressions", "%s", fmt.Sprint(all))
}
