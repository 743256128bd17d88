package converge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

// knowing is a step that knows something of the cluster.
type knowing struct {
	condition string
	cluster   api.ClusterFacts
	err       error
}

func (k knowing) Condition() string { return k.condition }

func (k knowing) Plan(context.Context, *api.NodeConfig) (converge.Plan, error) {
	return converge.Plan{Cluster: k.cluster}, k.err
}

func TestWhatStepsKnowOfTheClusterIsOneReport(t *testing.T) {
	end := time.Now()
	ca := knowing{condition: "A", cluster: api.ClusterFacts{CACertificate: "PEM", CACertificateHash: "sha256:00"}, err: errors.New("not ready")}
	token := knowing{condition: "B", cluster: api.ClusterFacts{Token: "t", TokenExpiresAt: &end}}
	want := api.ClusterFacts{CACertificate: "PEM", CACertificateHash: "sha256:00", Token: "t", TokenExpiresAt: &end}
	for _, steps := range [][]converge.Step{{ca, token}, {token, ca}} {
		if r := pass(t, converge.Options{}, steps...); r.Cluster == nil || *r.Cluster != want {
			t.Errorf("the report has %+v", r.Cluster)
		}
	}
	if r := pass(t, converge.Options{}, knowing{condition: "A"}); r.Cluster != nil {
		t.Errorf("nothing is reported as %+v", r.Cluster)
	}
}
