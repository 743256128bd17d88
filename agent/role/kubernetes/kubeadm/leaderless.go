package kubeadm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// An etcd that is ended after it has made its log, and before it has written itself into it as the
// first member, never elects a leader: it takes itself for a member of a cluster that it cannot find.
// kubeadm waits for it in vain at each attempt. While the attempt to make the cluster is unfinished
// and nobody knows of the cluster, such an etcd has nothing to lose.

// etcdFiles are all that an etcd has. Its log, by which the agent knows that there is one, goes last.
var etcdFiles = []string{etcdMember + "/snap/*", etcdMember + "/wal/*"}

// etcdEnds is how long an etcd may take to end.
const etcdEnds = time.Minute

// etcdHealth is the port at which an etcd of kubeadm's says how it is, also before it serves clients.
const etcdHealth = 2381

// remakeEtcd waits until the etcd that an attempt to make the cluster has left serves. It plans to
// remove one that has had no leader for etcd.Patience, nil if kubeadm may go on.
func (m *Machine) remakeEtcd(ctx context.Context) (*converge.Action, error) {
	health, err := m.Host.Ports.Get(ctx, etcdHealth, "/health")
	answers := err == nil
	if answers && health.Status == http.StatusOK {
		m.unhealthySince = time.Time{}
		return nil, nil
	}
	if m.unhealthySince.IsZero() {
		m.unhealthySince = m.Now()
	}
	if m.Now().Sub(m.unhealthySince) < etcd.Patience {
		return nil, converge.Wait(api.ReasonNotJoined, "etcd, which an unfinished attempt to make the cluster has left, does not serve yet; it is given %v", etcd.Patience)
	}
	if !answers || !strings.Contains(health.Body, "NO LEADER") { // kubeadm starts it
		return nil, nil
	}
	return &converge.Action{Summary: "remove the data of an etcd that was ended before it had begun", Do: func(ctx context.Context) error {
		m.unhealthySince = time.Time{}
		if err := m.endEtcd(ctx); err != nil {
			return err
		}
		for _, pattern := range etcdFiles {
			files, err := m.Host.Files.Match(pattern)
			for _, path := range files {
				err = errors.Join(err, m.Host.Files.Remove(path))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// endEtcd takes the manifest away, which kubeadm makes anew, and ends etcd. A kubelet that has found
// no API server since it was started ends no Pod whose manifest is gone, and starts none again.
func (m *Machine) endEtcd(ctx context.Context) error {
	if err := m.Host.Files.Remove(etcdManifest); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, etcdEnds)
	defer cancel()
	for {
		running, err := m.Host.Processes.OfPods("etcd")
		if err != nil || len(running) == 0 {
			return err
		}
		for _, p := range running {
			if err := m.Host.Processes.End(p); err != nil {
				return err
			}
		}
		if err := sleep.For(ctx, time.Second, nil); err != nil {
			return converge.Wait(api.ReasonNotJoined, "etcd, whose manifest is gone, has not ended in %v", etcdEnds)
		}
	}
}
