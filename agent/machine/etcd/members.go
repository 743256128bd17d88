package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Member is a member of the etcd cluster.
type Member struct {
	// ID is a decimal number of 64 bits.
	ID string `json:"ID"`
	// Name is that of the Node, if kubeadm has made the member; "" until it has started.
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	// Learner says that it has no vote yet.
	Learner bool `json:"isLearner"`
}

// Hex is its id as etcdctl writes it.
func (m Member) Hex() string {
	id, _ := strconv.ParseUint(m.ID, 10, 64)
	return strconv.FormatUint(id, 16)
}

// Machine is one that may have a member.
type Machine struct {
	// Node is the name of its Node, "" if it has none.
	Node      string
	Addresses []string
}

// Of returns the members of these machines: those with the name of a Node, then those with an
// address. An address is given to another machine later, so it counts for nothing if one that
// stays has it.
func Of(all []Member, machines, stay []Machine) (of []Member) {
	for _, m := range all {
		if m.named(machines) || !m.named(stay) && m.at(machines) && !m.at(stay) {
			of = append(of, m)
		}
	}
	return of
}

// named reports whether the member has the name of one of their Nodes.
func (m Member) named(machines []Machine) bool {
	return m.Name != "" && slices.ContainsFunc(machines, func(each Machine) bool { return each.Node == m.Name })
}

// at reports whether the member has an address of one of them.
func (m Member) at(machines []Machine) bool {
	return slices.ContainsFunc(m.PeerURLs, func(raw string) bool {
		u, err := url.Parse(raw)
		return err == nil && slices.ContainsFunc(machines, func(each Machine) bool {
			return slices.ContainsFunc(each.Addresses, func(a string) bool { return sameAddress(a, u.Hostname()) })
		})
	})
}

func sameAddress(x, y string) bool {
	a, errA := netip.ParseAddr(x)
	b, errB := netip.ParseAddr(y)
	return errA == nil && errB == nil && a.Unmap() == b.Unmap()
}

// ErrQuorum says that etcd refuses to remove a member, because the others would have no
// quorum, or too few of them run.
var ErrQuorum = errors.New("the members that stay would have no quorum")

// Members lists the members, as a quorum of them knows them.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var answer struct {
		Members []Member `json:"members"`
	}
	err := c.ask(ctx, "list", map[string]any{"linearizable": true}, &answer)
	return answer.Members, err
}

// Remove removes a member. It is no error if there is none with this id. etcd itself
// refuses what would cost the quorum: errors.Is(err, ErrQuorum).
func (c *Client) Remove(ctx context.Context, id string) error {
	err := c.ask(ctx, "remove", map[string]any{"ID": id}, &struct{}{})
	var refused *refusal
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Code == codeNotFound:
		return nil
	case refused.quorum():
		return fmt.Errorf("%w: %w", ErrQuorum, err)
	}
	return err
}

// Serves returns nil if the member of this machine serves clients and sees a leader;
// errors.Is(err, ErrNoLeader) if it sees none.
func (c *Client) Serves(ctx context.Context) error {
	return c.Healthy(ctx, Member{ClientURLs: []string{c.endpoint}})
}

// ErrNoLeader says that too few members run, or reach one another, for a quorum.
var ErrNoLeader = errors.New("etcd has no leader")

// Healthy returns nil if the member serves clients and sees a leader.
func (c *Client) Healthy(ctx context.Context, m Member) error {
	err := errors.New("it has not started")
	for _, each := range m.ClientURLs {
		var answer health
		if err = c.send(ctx, http.MethodGet, each+"/health", nil, &answer); err == nil && answer.Health == "true" {
			return nil
		}
		if err == nil {
			err = answer
		}
	}
	return err
}

// health is what a member says of itself. An unhealthy one does so with status 503.
type health struct {
	Health string `json:"health"`
	Reason string `json:"reason"`
}

func (h health) Error() string { return "it is not healthy: " + h.Reason }

func (h health) Is(target error) bool {
	return target == ErrNoLeader && strings.Contains(h.Reason, "NO LEADER")
}

// Codes of gRPC.
const (
	codeDeadlineExceeded = 4
	codeNotFound         = 5
	codeUnavailable      = 14
)

// refusal is an answer of etcd's that is an error of gRPC.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return "etcd refuses: " + r.Message }

func (r *refusal) quorum() bool {
	return strings.Contains(r.Message, "not enough started members") || strings.Contains(r.Message, "unhealthy cluster")
}

// passing says that etcd has no leader for the moment.
func (r *refusal) passing() bool {
	return (r.Code == codeUnavailable || r.Code == codeDeadlineExceeded) && !r.quorum()
}

func (c *Client) ask(ctx context.Context, what string, request map[string]any, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	return c.send(ctx, http.MethodPost, c.endpoint+"/v3/cluster/member/"+what, body, answer)
}

// send decodes an answer, or returns a *refusal, or says that etcd does not answer.
func (c *Client) send(ctx context.Context, method, to string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	got, err := c.http.Do(request)
	if err != nil {
		return unusable("etcd does not answer: %v", err)
	}
	defer got.Body.Close()
	const largest = 1 << 20
	content, err := io.ReadAll(io.LimitReader(got.Body, largest))
	if err != nil {
		return unusable("etcd does not answer: %v", err)
	}
	if unhealthy, asked := answer.(*health); asked && got.StatusCode == http.StatusServiceUnavailable && json.Unmarshal(content, unhealthy) == nil && unhealthy.Health != "" {
		return nil
	}
	if got.StatusCode != http.StatusOK {
		var refused refusal
		if json.Unmarshal(content, &refused) == nil && refused.passing() {
			return unusable("etcd does not answer: %s", refused.Message)
		}
		if refused.Message != "" {
			return &refused
		}
		return unusable("etcd answers %s", got.Status)
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return unusable("etcd answers what is no JSON of its gateway: %v", err)
	}
	return nil
}
