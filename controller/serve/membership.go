package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// membership is this process as one of the replicas that are alive.
type membership struct {
	mu     sync.Mutex
	member *etcd.Member // nil until it has joined
}

// join makes this process one of the replicas that are alive, once etcd answers.
func (m *membership) join(ctx context.Context, client *etcd.Client, c config.Config, log *slog.Logger) (*etcd.Member, error) {
	self := etcd.Replica{ID: c.Replica.ID, URL: c.Replica.URL, Version: version.Version, Schema: store.Schema()}
	for {
		member, err := client.Join(ctx, self)
		switch {
		case err == nil:
			m.mu.Lock()
			defer m.mu.Unlock()
			m.member = member
			return member, nil
		case ctx.Err() != nil, errors.Is(err, etcd.ErrSameID), errors.Is(err, etcd.ErrRefused):
			return nil, err
		}
		log.Debug("not a replica yet; it is tried again", "because", err)
	}
}

func (m *membership) joined() *etcd.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.member
}

// others are the URLs of the other replicas that are alive.
func (m *membership) others() []string {
	if member := m.joined(); member != nil {
		return member.Others()
	}
	return nil
}

// leader is the URL of the leader, "" if none is known or it has none.
func (m *membership) leader() string {
	if member := m.joined(); member != nil {
		return member.Leader()
	}
	return ""
}

// led says that one of the replicas is the leader.
func (m *membership) led() bool {
	member := m.joined()
	return member != nil && member.Led()
}

// known are the replicas that are alive by etcd, with this one, of the id, as the leader in its term.
func (m *membership) known(term *etcd.Term, id string) ([]wire.Replica, error) {
	if err := term.Check(); err != nil {
		return nil, err
	}
	live, err := m.joined().Known() // it has joined before it became the leader
	if err != nil {
		return nil, err
	}
	list := make([]wire.Replica, len(live))
	for i, r := range live {
		list[i] = wire.Replica{ID: r.ID, URL: r.URL, Version: r.Version, Schema: r.Schema, State: wire.ReplicaStandby}
		switch {
		case r.ID == id:
			since := term.Since()
			list[i].State, list[i].Term, list[i].LeaderSince = wire.ReplicaLeader, term.Number(), &since
		case r.URL != "":
			list[i].State = wire.ReplicaFollower
		}
	}
	return list, nil
}
