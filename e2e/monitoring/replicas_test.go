package monitoring

import (
	"fmt"
	"maps"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// replicas are a leader, and a follower that reaches etcd by a link that fails. Then etcd ends.
func replicas(t *testing.T, p *prometheus, m *made) {
	etcd := etcdtest.Open(t, 1)
	link, key := etcdtest.NewProxy(t, etcd.Endpoints()[0]), loopback.SealKey(t)
	begin := func(id, endpoint string) *site {
		s := &site{t: t, prometheus: p, target: loopback.FreeAddress(t)}
		settings := map[string]string{"metricsListen": s.target}
		maps.Copy(settings, loopback.Replica(t, id, key, endpoint))
		s.Controller = loopback.Open(t, loopback.Options{Settings: settings})
		p.scrape(s.target)
		until(t, func() string { return "Prometheus scrapes " + s.target }, func() bool {
			return len(p.query(fmt.Sprintf(`nodehitch_replica_is_leader{instance=%q}`, s.target))) > 0
		})
		return s
	}
	leader := begin("c1", etcd.Endpoints()[0])
	follower := begin("c2", link.URL)
	leader.fires("NodehitchBackupMissing")

	link.Lose(etcdtest.ToEtcd, etcdtest.ToClient)
	follower.fires("NodehitchReplicaBehind")
	if firing := p.names(follower.target); firing != "NodehitchReplicaBehind" {
		t.Errorf("a follower that does not follow: %s", firing)
	}
	link.Heal()
	follower.over(m, "NodehitchReplicaBehind")

	etcd.Members[0].Kill()
	<-leader.Exited()                                                     // it cannot prove any more that it is the leader
	nobody := &site{Controller: follower.Controller, t: t, prometheus: p} // the alert is of none of them
	nobody.fires("NodehitchNoLeader")
	etcd.Members[0].Start()
	nobody.over(m, "NodehitchNoLeader")
	until(t, func() string { return "the follower is the leader" }, func() bool {
		return len(p.query(fmt.Sprintf(`nodehitch_replica_is_leader{instance=%q} == 1`, follower.target))) > 0
	})
}
