package kubernetes_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
)

// What an etcd has that an unfinished attempt to make the cluster has left goes only if it says that
// it has no leader, for a while, and nobody knows of the cluster yet.
func TestAnEtcdThatWasEndedBeforeItHadBegunIsMadeAnew(t *testing.T) {
	noLeader := host.Answer{Status: http.StatusServiceUnavailable, Body: `{"health":"false","reason":"RAFT NO LEADER"}`}
	for name, c := range map[string]struct {
		said        host.Answer
		known       bool
		waits       time.Duration
		first, then string // of ClusterMember
		goes        bool
	}{
		"it has no leader":                     {noLeader, false, 30 * time.Second, "False NotJoined", "False Converging", true},
		"it has none for a short time":         {noLeader, false, 29 * time.Second, "False NotJoined", "False NotJoined", false},
		"it does not serve for another reason": {host.Answer{Status: http.StatusServiceUnavailable, Body: `{"health":"false","reason":"QGET ERROR"}`}, false, 30 * time.Second, "False NotJoined", "False JoinFailed", false},
		"it serves":                            {host.Answer{Status: http.StatusOK, Body: `{"health":"true","reason":""}`}, false, 0, "False JoinFailed", "False JoinFailed", false},
		"others know of the cluster":           {noLeader, true, 30 * time.Second, "False JoinFailed", "False JoinFailed", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			r.m.Kubernetes.Refuses["init"] = noServer
			r.expect(member, "False JoinFailed")
			data := []string{wal, "/var/lib/etcd/member/wal/0.tmp", "/var/lib/etcd/member/snap/db"}
			for _, path := range append(data, etcdManifest) {
				r.m.Files[path] = hosttest.FileState{Content: "data", Mode: 0o600}
			}
			if c.known {
				r.doc.Cluster.CACertificateHash = r.hash
			}
			r.m.Answers[2381] = c.said
			r.m.Processes = []host.Process{{PID: 7, Program: "etcd"}}
			r.expect(member, c.first)
			r.clock = r.clock.Add(c.waits)
			r.expect(member, c.then)
			there := slices.ContainsFunc(data, func(path string) bool { _, there := r.m.Files[path]; return there })
			if runs := len(r.m.Processes) > 0; there == c.goes || runs == c.goes {
				t.Errorf("some of its data is there: %v; it runs: %v", there, runs)
			}
			delete(r.m.Kubernetes.Refuses, "init")
			if c.goes {
				r.expect(member, "True Joined")
			}
		})
	}
}
