package replicas

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	// pollers are nodes that poll all the time and are revoked one after the other.
	pollers = 4
	// probes are nodes that poll all the time and are not held for long.
	probes    = 2
	probeWait = "1s"
	// revokeEvery is how far apart revocations are asked for.
	revokeEvery = 4 * time.Second
	// outlives is how long after its revocation a node's poll may be answered as before.
	outlives = 10 * time.Second
)

// poller is a node that polls.
type poller struct {
	*loopback.Machine
	// wait is how long its polls may be held, "" for as long as the controller likes.
	wait string

	mu sync.Mutex
	// answered is when a poll was answered as that of a node that is let in.
	answered []time.Time
	// made is when the controller made the answer, to the second: a network that was cut may have
	// it arrive much later.
	made []time.Time
	// refused is how often it was not let in.
	refused int
	// revoked is when its revocation was acknowledged.
	revoked time.Time
}

// machine enrolls one, whose calls come from the n-th address.
func (l *load) machine(server, token string, n int) *loopback.Machine {
	w := l.w
	m := &loopback.Machine{ServerID: server, Key: testca.NewKey(), Trust: w.trust, Dial: w.clients.dialFrom(w.clients.machine(n))}
	var err error
	loopback.Until(w.t, "the node "+server+" enrolls", func() bool {
		for _, m.Controller = range w.trust.Urls {
			if err = m.Enroll(w.t.Context(), token); err == nil {
				return true
			}
		}
		return false
	})
	return m
}

// newPollers enrolls pollers and probes.
func (l *load) newPollers() {
	instance, from := id(5, l.phase), 100000+l.phase*100
	c := l.w.caller(92)
	l.w.must(c.until(func(a *client.Controller) error {
		return client.Done(a.PutInstance(l.w.t.Context(), instance, nil, spec(l.w.t, loopback.ClusterParams(""), loopback.Workers(id, from, pollers+probes))))
	}))
	token := l.w.joinToken(c, instance)
	for i := range pollers + probes {
		p := &poller{Machine: l.machine(id(1, from+i), token, 110+i)}
		if i < pollers {
			l.pollers = append(l.pollers, p)
		} else {
			p.wait = probeWait
			l.probes = append(l.probes, p)
		}
	}
}

// poll polls until ctx ends, at the next controller after each failure.
func (l *load) poll(ctx context.Context, p *poller) {
	limit := 2 * pollSeconds * time.Second
	if p.wait != "" {
		limit = callLimit
	}
	var apis []*client.Controller
	for _, url := range l.w.trust.Urls {
		identity := p.Identity
		a, err := client.New(client.Options{BaseURL: url, RootPEM: []byte(l.w.trust.RootCertificate), Pin: l.w.trust.Pin, Timeout: limit,
			Dial: p.Dial, Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &identity, nil }})
		if err != nil {
			l.fail("%v", err)
			return
		}
		defer a.CloseIdle()
		apis = append(apis, a)
	}
	at, tag := 0, ""
	for ctx.Err() == nil {
		params := &api.GetNodeConfigParams{}
		if tag != "" {
			params.IfNoneMatch = &tag
		}
		if p.wait != "" {
			params.Wait = &p.wait
		}
		answer, err := apis[at].GetNodeConfig(ctx, params)
		status := 0
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			status = answer.StatusCode
		}
		switch {
		case err == nil && (status == http.StatusOK || status == http.StatusNotModified):
			tag = answer.Header.Get("ETag")
			made, err := http.ParseTime(answer.Header.Get("Date"))
			if err != nil {
				l.fail("the date of an answer: %v", err)
			}
			p.mu.Lock()
			p.answered, p.made = append(p.answered, time.Now()), append(p.made, made)
			p.mu.Unlock()
			continue
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			p.mu.Lock()
			p.refused++
			p.mu.Unlock()
		default:
			tag, at = "", (at+1)%len(apis)
			apis[at].CloseIdle()
		}
		sleep(ctx, 250*time.Millisecond)
	}
}

// revoke revokes all pollers, one after the other.
func (l *load) revoke(ctx context.Context, c *caller) {
	for _, p := range l.pollers {
		if !sleep(ctx, revokeEvery) {
			return
		}
		if err := c.until(func(a *client.Controller) error { return client.Done(a.RevokeNode(l.w.t.Context(), p.ServerID)) }); err != nil {
			l.fail("the node %s was not revoked: %v", p.ServerID, err)
			return
		}
		p.mu.Lock()
		p.revoked = time.Now()
		p.mu.Unlock()
	}
}

// outlived counts polls whose answer was made too long after the revocation, and revocations.
// The longest is how long after it the last one was made, and latest how long after it the last
// one has arrived.
func (l *load) outlived() (polls, revocations int, longest, latest time.Duration) {
	for _, p := range l.pollers {
		p.mu.Lock()
		if p.revoked.IsZero() {
			p.mu.Unlock()
			continue
		}
		revocations++
		for i, at := range p.made {
			late := at.Sub(p.revoked)
			longest, latest = max(longest, late), max(latest, p.answered[i].Sub(p.revoked))
			if late > outlives {
				polls++
			}
		}
		if p.refused == 0 {
			l.w.t.Errorf("the revoked node %s was never refused", p.ServerID)
		}
		p.mu.Unlock()
	}
	return polls, revocations, longest, latest
}
