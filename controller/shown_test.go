package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// shown is the replicas by their ids, as this one answers.
func (p *process) shown() map[string]wire.Replica {
	p.t.Helper()
	status, body := p.call("GET", "/v1/replicas", nil)
	var list wire.ReplicaList
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		return nil // between two leaders
	}
	byID := map[string]wire.Replica{}
	for _, r := range list.Items {
		byID[r.ID] = r
	}
	return byID
}

// gauge is the value of a metric, "" if it is absent.
func gauge(text, name string) string {
	found := regexp.MustCompile("(?m)^" + name + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// Who asks any of them sees all that are alive, who writes, in which term, and how far the followers
// follow. One that was killed is gone once its lease has ended.
func TestReplicasAreShown(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	first := r.follow("c1")
	first.says("pin=sha256:")
	second, third := r.follow("c2"), r.follow("c3")
	atSecond := second.says(`requests are handed to the leader.* metrics=(\S+)`)[1]
	third.says("requests are handed to the leader")

	var all map[string]wire.Replica
	loopback.Until(t, "both followers follow and serve", func() bool { // the leader has asked since
		all = second.shown()
		return len(all) == 3 && all["c2"].LagSeconds != nil && all["c3"].LagSeconds != nil && all["c2"].Message == "" && all["c3"].Message == ""
	})
	leader := all["c1"]
	if leader.State != wire.ReplicaLeader || leader.Term == 0 || leader.LeaderSince == nil || leader.LagSeconds != nil || leader.Message != "" {
		t.Errorf("the leader: %+v", leader)
	}
	for _, id := range []string{"c2", "c3"} {
		if d := all[id]; d.State != wire.ReplicaFollower || d.Term != 0 || d.LeaderSince != nil || !strings.HasPrefix(d.URL, "https://127.0.0.1:") || d.Version == "" || d.Schema < 1 {
			t.Errorf("the follower: %+v", d)
		}
	}
	text := scrape(t, atSecond)
	if gauge(text, "nodehitch_replica_is_leader") != "0" || gauge(text, "nodehitch_replicas") != "3" || gauge(text, "nodehitch_replica_lag_seconds") == "" {
		t.Errorf("the metrics of a follower:\n%s", text)
	}
	if got := gauge(text, "nodehitch_replica_term"); got != strconv.FormatInt(leader.Term, 10) {
		t.Errorf("the term, as a follower sees it: %q; the leader says %d", got, leader.Term)
	}

	if err := third.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	loopback.Until(t, "the leader has no answer of it", func() bool { all = second.shown(); return all["c3"].Message == "it does not answer the leader" })
	if all["c3"].LagSeconds != nil {
		t.Errorf("a follower that does not answer: %+v", all["c3"])
	}
	loopback.Until(t, "it is gone", func() bool { return len(second.shown()) == 2 })

	if err := first.stop(); err != nil {
		t.Errorf("%v\n%s", err, first.logged())
	}
	loopback.Until(t, "another one is the leader", func() bool { all = second.shown(); return len(all) == 1 && all["c2"].State == wire.ReplicaLeader })
	if all["c2"].Term <= leader.Term {
		t.Errorf("the next term has the number %d, that before %d", all["c2"].Term, leader.Term)
	}
	second.says("pin=sha256:")
	text = scrape(t, atSecond)
	if gauge(text, "nodehitch_replica_is_leader") != "1" || gauge(text, "nodehitch_replicas") != "1" || gauge(text, "nodehitch_replica_lag_seconds") != "" {
		t.Errorf("the metrics of the leader:\n%s", text)
	}
	if err := second.stop(); err != nil {
		t.Errorf("%v\n%s", err, second.logged())
	}
}

// A controller that serves while it is the leader only is a replica too, and has no state before.
func TestAStandbyIsShown(t *testing.T) {
	t.Parallel()
	r := openReplicas(t)
	first := r.begin("c1")
	first.says("listen=")
	second := r.begin("c2")
	second.told("STATUS=Standby; the leader is \"c1\"")
	var all map[string]wire.Replica
	loopback.Until(t, "the leader knows it", func() bool { all = first.shown(); return len(all) == 2 })
	if all["c1"].State != wire.ReplicaLeader || all["c2"].State != wire.ReplicaStandby || all["c2"].URL != "" || all["c2"].LagSeconds != nil || all["c2"].Message != "" {
		t.Errorf("%+v", all)
	}
	for _, p := range []*process{second, first} {
		if err := p.stop(); err != nil {
			t.Errorf("%v\n%s", err, p.logged())
		}
	}
}

// A store of this controller alone has no replicas, and no metric of them.
func TestOneAloneHasNoReplicas(t *testing.T) {
	p := begin(t, t.TempDir(), nil)
	address := p.says(`metrics=(\S+)`)[1]
	if status, body := p.call("GET", "/v1/replicas", nil); status != http.StatusOK || strings.TrimSpace(body) != `{"items":[]}` {
		t.Errorf("%d %s", status, body)
	}
	if text := scrape(t, address); strings.Contains(text, "nodehitch_replica") {
		t.Error("there is a metric of replicas")
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}
