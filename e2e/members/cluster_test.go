package members

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const suite = "members"

// The request and the folder of the VNF package that it speaks of.
const (
	body       = "testdata/request.json"
	packageDir = "testdata/package"
)

// What makes a server a master or a worker, as the request names it.
const (
	masterPoint  = "masterNode_CP1"
	workerPoint  = "workerNode_CP2"
	masterAspect = "master_instance"
	workerAspect = "worker_instance"
)

// cluster is a VNF and its Kubernetes API.
type cluster struct {
	*sitetest.World
	*sitetest.VNF
	kube     *kube.Cluster
	hands    *hands
	joining  sync.WaitGroup
	etcdTurn sync.Mutex
}

func newCluster(t *testing.T, agents, controller bool) *cluster {
	t.Helper()
	kubetest.Require(t)
	w := &cluster{World: sitetest.NewWorld(t, lab.KindNspawn)}
	w.VNF = w.NewVNF()
	w.Kills.Agents, w.Kills.Controller = agents, controller
	w.kube = kubetest.Open(t, kube.Options{Lab: w.Lab, Members: true})
	w.hands = newHands(t, w.kube)
	w.Topology.ConnectionPoints = []api.ConnectionPoint{{Name: "vip_CP", Addresses: []string{lab.Gateway.String()}}}
	t.Cleanup(w.joining.Wait)
	t.Cleanup(w.Explain)
	return w
}

func (w *cluster) master() api.Server { return w.Draw("master", masterPoint, masterAspect) }
func (w *cluster) worker() api.Server { return w.Draw("worker", workerPoint, workerAspect) }

// boot boots machines; each joins the cluster as soon as it has what it needs.
func (w *cluster) boot(servers ...api.Server) {
	w.T.Helper()
	userData := w.UserData()
	var specs []lab.Spec
	for _, s := range servers {
		specs = append(specs, sitetest.Spec(s, userData))
	}
	for _, m := range w.Boot(func(ctx context.Context, spec lab.Spec) (lab.Node, error) {
		node, err := w.Lab.Nspawn(ctx, spec)
		if err == nil {
			err = w.Kills.Watch(ctx, node)
		}
		return node, err
	}, specs...) {
		w.joining.Go(func() {
			if err := w.join(w.T.Context(), m); err != nil && slices.Contains(w.Up(), m) {
				w.T.Errorf("%s does not join: %v", m.Name(), err)
			}
		})
	}
}

// gone takes a machine and its server away, as Nova and Heat do.
func (w *cluster) gone(m *sitetest.Machine) {
	w.T.Helper()
	w.hands.gone(m.Name())
	w.Drop(m.Server)
	w.Destroy(m)
}

func (w *cluster) masters() []*sitetest.Machine { return w.Of(masterPoint) }
func (w *cluster) workers() []*sitetest.Machine { return w.Of(workerPoint) }
