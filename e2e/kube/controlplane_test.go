package kube_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestAMasterSaysWhetherItsControlPlaneIsHealthy(t *testing.T) {
	results.Begin(t, suite, "agent-control-plane",
		"a master reports its control plane, with a real API server and an etcd of three members: healthy, an API server whose etcd is away, an etcd without a quorum")
	kubetest.Require(t)
	p := newControlPlane(t)
	o := newOwner(t, p.m, p.clients[0])
	p.m.Files[kubeadm.KubeletKubeconfig] = hosttest.FileState{Content: "kubelet has joined", Mode: 0o600}
	for _, port := range []int{10257, 10259} { // these components are not there
		p.m.Answers[port] = host.Answer{Status: http.StatusOK, Body: "ok"}
	}
	h := p.m.Host()
	joining := kubeadm.New(kubeadm.Options{Host: h, StateDirectory: "/var/lib/nodehitch/agent", ServerID: memberID(0)})
	engine := converge.New(kubernetes.AfterJoining(kubernetes.Options{Host: h, Kubeadm: joining, EtcdEndpoint: p.clients[0]})...)
	doc := &api.NodeConfig{
		APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleMaster,
		Cluster: &api.ClusterSection{Endpoint: strings.TrimPrefix(o.URL, "https://")}, ControlPlane: &api.ControlPlaneSection{},
	}
	until := func(want, word string) {
		t.Helper()
		var c *api.Condition
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			report := engine.Converge(t.Context(), doc, converge.Options{Confirmed: true})
			if c = report.Condition(api.ConditionControlPlaneHealthy); c.Reason == want && strings.Contains(c.Message, word) {
				return
			}
		}
		t.Fatalf("the condition is %s: %s, want %s with %q", c.Reason, c.Message, want, word)
	}
	until(api.ReasonHealthy, doc.Cluster.Endpoint)
	o.Etcd.Stop()
	until(api.ReasonComponentUnhealthy, "kube-apiserver is not ready: etcd")
	o.start(o.Etcd)
	until(api.ReasonHealthy, "")
	p.kill(1)
	p.kill(2)
	until(api.ReasonQuorumLost, "no leader")
}
