package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// pollsOfANode is how many connections a node may have.
const pollsOfANode = 8

// TestMemory makes the controller hold polls of plain connections, which takes a fraction
// of the time that as many agents need to enroll: each node makes as many as it may.
func TestMemory(t *testing.T) {
	for _, size := range []struct {
		polls int
		long  bool
	}{{400, false}, {2000, true}, {10000, true}} {
		t.Run(fmt.Sprintf("%d polls", size.polls), func(t *testing.T) {
			c := results.Begin(t, "fleet", fmt.Sprintf("%d held polls", size.polls), "the controller's memory for a held poll")
			if size.long {
				results.LongOnly(t)
			}
			f := open(t, c)
			empty := f.Usage()
			f.holdPolls(size.polls)
			u := f.Usage()
			c.Figure("RSS", "%d MiB, then %d with all polls held: %d KiB per poll", empty.Resident>>20, u.Resident>>20, (u.Resident-empty.Resident)>>10/int64(size.polls))
			c.Figure("CPU", "%.1f ms per poll, its share of an enrollment included", 1000*u.CPU.Seconds()/float64(size.polls))
		})
	}
}

// TestStacks: the runtime shrinks a stack only if less than a quarter of it is used. A few
// bytes more on the path to a held poll cost each of them 8 KiB.
func TestStacks(t *testing.T) {
	const polls, most = 400, 14 << 10 // 8 KiB for the request, 4 for its wait for the client
	c := results.Begin(t, "fleet", "stacks of held polls", "the runtime shrinks the stack of a held poll to 8 KiB")
	f := open(t, c)
	f.End(syscall.SIGTERM)
	f.SetEnv("GOGC=5") // stacks are shrunk by the garbage collector
	f.Start()
	const stacks = "go_memstats_stack_inuse_bytes"
	empty, perPoll := f.metric(stacks), 0.0
	f.holdPolls(polls)
	f.awaitEvery(100*time.Millisecond, "the stacks of a held poll are small", time.Minute, func(crowd.Tally) bool {
		perPoll = (f.metric(stacks) - empty) / polls
		return perPoll <= most
	})
	c.Figure("stacks", "%.1f KiB per poll", perPoll/1024)
}

// holdPolls enrolls nodes and makes polls of them, until all are held.
func (f *fleet) holdPolls(polls int) {
	f.t.Helper()
	nodes := polls / pollsOfANode
	tokens := make([]string, 0, nodes/perInstance+1)
	for from := 0; from < nodes; from += perInstance {
		instance := id(0, len(tokens))
		f.PutParams(instance, loopback.ClusterParams(""), loopback.Workers(id, from, min(perInstance, nodes-from)))
		tokens = append(tokens, f.JoinToken(instance))
	}
	trust := f.Trust()
	var enrolling sync.WaitGroup
	const workers = 8
	for worker := range workers {
		enrolling.Go(func() {
			for i := worker; i < nodes; i += workers {
				if err := f.holdPollsOfNode(trust, tokens[i/perInstance], i); err != nil {
					f.t.Errorf("node %d: %v", i, err)
					return
				}
			}
		})
	}
	enrolling.Wait()
	f.await("all polls are held", 5*time.Minute, func(crowd.Tally) bool { return int(f.metric("nodehitch_long_polls_in_flight")) == polls })
}

func (f *fleet) holdPollsOfNode(trust *api.Trust, token string, n int) error {
	config, err := f.identity(trust, token, n)
	if err != nil {
		return err
	}
	dialer := &tls.Dialer{NetDialer: source(n), Config: config}
	tag := ""
	for range pollsOfANode {
		conn, err := crowd.Again(func() (net.Conn, error) {
			return dialer.DialContext(f.t.Context(), "tcp", strings.TrimPrefix(f.URL, "https://"))
		})
		if err != nil {
			return err
		}
		f.t.Cleanup(func() { conn.Close() })
		if tag, err = crowd.Poll(conn, tag); err != nil {
			return err
		}
	}
	return nil
}

// source dials from the n-th node's address.
func source(n int) *net.Dialer {
	return &net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n/250), byte(1+n%250))}}
}

// identity enrolls the n-th node, and is how it calls the controller then.
func (f *fleet) identity(trust *api.Trust, token string, n int) (*tls.Config, error) {
	certificate, err := crowd.Again(func() (tls.Certificate, error) { return f.certificate(trust, token, n) })
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(trust.RootCertificate))
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}, nil
}

// certificate enrolls the n-th node.
func (f *fleet) certificate(trust *api.Trust, token string, n int) (tls.Certificate, error) {
	m := loopback.Machine{ServerID: id(1, n), Key: testca.NewKey(), Controller: f.URL, Trust: trust, Dial: source(n).DialContext}
	if err := m.Enroll(f.t.Context(), token); err != nil {
		return tls.Certificate{}, err
	}
	m.Identity.Certificate = m.Identity.Certificate[:1] // all that an agent presents
	return m.Identity, nil
}
