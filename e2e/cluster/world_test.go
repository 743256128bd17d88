package cluster

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

const suite = "cluster"

// The spec's request, and the folder of the VNF package that it speaks of.
const (
	body       = "../../shared/params/testdata/persistent-volumes.json"
	packageDir = "testdata/package"
)

// world also has a Kubernetes API.
type world struct {
	*sitetest.World
	whole *testing.T
	kube  *kube.Cluster
	// control is the machine on which ansible runs, if a test has one.
	control *sitetest.Machine
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kubetest.Require(t)
	return &world{World: sitetest.NewWorld(t, lab.KindNspawn, lab.KindVM), whole: t}
}

// newKubernetes replaces the Kubernetes API by an empty one.
func (w *world) newKubernetes() {
	w.T.Helper()
	w.kube = kubetest.Replace(w.whole, w.kube, w.Lab)
}
