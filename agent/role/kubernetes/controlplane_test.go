package kubernetes_test

import (
	"net/http"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

const healthy = api.ConditionControlPlaneHealthy

func TestTheControlPlane(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
		words  []string
	}{
		"healthy": {func(*rig) {}, "True Healthy", []string{"127.0.0.1:"}},
		"an API server that is not ready": {
			func(r *rig) {
				r.readyz(http.StatusInternalServerError, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]informer-sync failed: reason withheld\nreadyz check failed\n")
			},
			"False ComponentUnhealthy", []string{"kube-apiserver is not ready: etcd failed: reason withheld, informer-sync failed"},
		},
		"an API server that says nothing": {func(r *rig) { r.readyz(http.StatusServiceUnavailable, "") }, "False ComponentUnhealthy", []string{"503"}},
		"no API server":                   {func(r *rig) { r.api.Down() }, "False ComponentUnhealthy", []string{"kube-apiserver does not answer"}},
		"a scheduler that is not healthy": {
			func(r *rig) {
				r.m.Answers[10259] = host.Answer{Status: http.StatusInternalServerError, Body: "[-]leaderElection failed\n"}
			},
			"False ComponentUnhealthy", []string{"kube-scheduler", "leaderElection failed"},
		},
		"no controller manager": {func(r *rig) { delete(r.m.Answers, 10257) }, "False ComponentUnhealthy", []string{"kube-controller-manager does not answer"}},
		"an etcd without a leader": {
			func(r *rig) {
				r.etcd.status, r.etcd.said = http.StatusServiceUnavailable, map[string]any{"health": "false", "reason": "RAFT NO LEADER"}
			},
			"False QuorumLost", []string{"no leader"},
		},
		"an etcd with an alarm": {
			func(r *rig) {
				r.etcd.status, r.etcd.said = http.StatusServiceUnavailable, map[string]any{"health": "false", "reason": "ALARM NOSPACE"}
			},
			"False ComponentUnhealthy", []string{"ALARM NOSPACE"},
		},
		"no etcd": {func(r *rig) { r.etcd.Close() }, "False ComponentUnhealthy", []string{"etcd does not answer"}},
		"an etcd elsewhere": {
			func(r *rig) {
				delete(r.m.Files, "/etc/kubernetes/pki/etcd/ca.crt")
				r.etcd.Close()
			},
			"True Healthy", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			r.expect(healthy, "True Healthy")
			c.change(r)
			r.expect(healthy, c.want, c.words...)
		})
	}
}

func TestAMasterWithoutAClusterWaits(t *testing.T) {
	r := machine(t, api.RoleMaster)
	r.expect(healthy, "False WaitingForCluster")
	r = machine(t, api.RoleWorker)
	if c := r.converge(); c.Condition(healthy) != nil {
		t.Errorf("a worker says %+v", c.Conditions)
	}
}
