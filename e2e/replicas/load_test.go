package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nodehitch/nodehitch/e2e/crowd"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// load is what clients and nodes do during one phase of a test, and what they have seen.
type load struct {
	w     *installation
	phase int

	callers   []*caller
	storage   *storage
	pollers   []*poller
	probes    []*poller
	instances history
	volumes   history

	mu     sync.Mutex
	failed []string
}

// finalReader is the client that reads everything at the end.
const finalReader = 1000

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) < 10 {
		l.failed = append(l.failed, fmt.Sprintf(format, args...))
	}
}

// dialed says that no connection could be made.
func dialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// phase does something to the installation while clients, nodes and agents use it. When fault
// returns, all is as before. It is a case of its own; all but the first of an installation are long.
func (w *installation) phase(t *testing.T, name, shows string, fault func(c *results.Case)) {
	t.Helper()
	outer := w.t
	ok := t.Run(name, func(t *testing.T) {
		w.t = t
		c := results.Begin(t, "replicas", name, shows)
		if w.phases++; w.phases > 1 {
			results.LongOnly(t)
			w.crowd.Stop() // agents that have gone to another controller come back
			w.everyoneServes()
			w.connectCrowd(outer)
		}
		w.describe(c)
		began := time.Now()
		l := &load{w: w, phase: w.phases, instances: history{began: began, by: map[string]int{}}, volumes: history{began: began, by: map[string]int{}}}
		l.run(c, fault)
	})
	w.t = outer
	if !ok {
		t.FailNow() // what was left behind is not what the next one expects
	}
}

func (l *load) run(c *results.Case, fault func(c *results.Case)) {
	w := l.w
	for n := range registerClients {
		l.callers = append(l.callers, w.caller(n))
	}
	l.storage = l.newStorage()
	l.newPollers()
	ctx, cancel := context.WithCancel(w.t.Context())
	var clients, nodes, revoking sync.WaitGroup
	defer func() { cancel(); clients.Wait(); nodes.Wait(); revoking.Wait() }()
	for n := range registerClients {
		clients.Go(func() { l.registers(ctx, n) })
	}
	for n := range permitClients {
		clients.Go(func() { l.storage.permits(ctx, n) })
	}
	for _, p := range slices.Concat(l.pollers, l.probes) {
		nodes.Go(func() { l.poll(ctx, p) })
	}
	loopback.Until(w.t, "clients write and nodes poll", l.warm)
	w.tally()
	w.seen = crowd.Tally{}
	began, before := time.Now(), w.holderName()
	revoker := w.caller(93)
	revoking.Go(func() { l.revoke(ctx, revoker) })

	fault(c)

	mended := time.Now()
	acknowledged := l.instances.acknowledgements()
	loopback.Until(w.t, "clients write again", func() bool { return l.instances.acknowledgements() > acknowledged+registerClients })
	w.await("every agent has polled since", 5*time.Minute, func(now crowd.Tally) bool {
		return now.Connected == w.size && now.Oldest < time.Since(mended)
	})
	revoking.Wait()
	if last := l.pollers[len(l.pollers)-1]; !last.revoked.IsZero() {
		sleep(w.t.Context(), time.Until(last.revoked.Add(outlives+time.Second)))
	}
	ended := time.Now()
	cancel()
	clients.Wait()
	nodes.Wait()
	l.report(c, began, ended, before)
}

// warm says that all that the case is about happens.
func (l *load) warm() bool {
	for _, p := range slices.Concat(l.pollers, l.probes) {
		p.mu.Lock()
		answered := len(p.answered)
		p.mu.Unlock()
		if answered == 0 {
			return false
		}
	}
	return l.instances.acknowledgements() > 2*registerClients && l.volumes.acknowledgements() > permitClients
}

func (w *installation) holderName() string {
	if w.db == nil {
		return w.controllers[0].name
	}
	return w.holder()
}

// report reads everything back and notes the figures.
func (l *load) report(c *results.Case, began, ended time.Time, before string) {
	w := l.w
	w.t.Helper()
	reader := w.caller(94)
	names := map[string]bool{}
	for _, o := range l.instances.all {
		names[o.Input.(register).name] = true
	}
	for name := range names {
		loopback.Until(w.t, "the instance "+name+" is read", func() bool { return l.register(reader, finalReader, register{name: name}) == nil })
	}
	writes := slices.Concat(l.instances.acknowledged, l.volumes.acknowledged)
	slices.SortFunc(writes, time.Time.Compare)
	var polls []time.Time
	for _, p := range l.probes {
		polls = append(polls, p.answered...)
	}
	slices.SortFunc(polls, time.Time.Compare)
	w.tally()

	c.Figure("took", "%.0f s of the load", ended.Sub(began).Seconds())
	c.Figure("leader", "%s, then %s", before, w.holderName())
	c.Figure("answered by", "%s", shares(l.instances.by, l.volumes.by))
	c.Figure("longest without an acknowledged write", "%.1f s", gap(writes, began, ended).Seconds())
	c.Figure("longest without a successful poll", "%.1f s of nodes that ask each second; %.1f s of an agent, whose polls are held for %d s", gap(polls, began, ended).Seconds(), w.seen.Longest.Seconds(), pollSeconds)
	lost := l.lost() + l.storage.lostFormats(reader)
	c.Figure("acknowledged changes", "%d, lost %d", len(writes), lost)
	twice := l.storage.twice()
	c.Figure("permits", "for %d volumes, given twice %d", len(l.storage.given), twice)
	outlived, revocations, longest, latest := l.outlived()
	c.Figure("revocations", "%d, polls that outlived one by more than %.0f s: %d, last good answer made after %.0f s and arrived after %.1f s",
		revocations, outlives.Seconds(), outlived, longest.Seconds(), latest.Seconds())
	c.Figure("agents that enrolled anew", "%d", w.seen.Enrolled)
	c.Lost(int64(lost))
	c.Unauthorised(int64(twice + outlived))
	if w.seen.Enrolled != 0 {
		w.t.Errorf("%d agents have enrolled anew", w.seen.Enrolled)
	}
	if revocations != pollers {
		w.t.Errorf("%d of %d nodes were revoked", revocations, pollers)
	}
	for _, text := range l.failed {
		w.t.Error(text)
	}
	l.checkOrder(c)
}

// checkOrder looks for an order of all that clients saw that explains it.
func (l *load) checkOrder(c *results.Case) {
	l.w.t.Helper()
	verdict := "yes"
	for name, check := range map[string]func() porcupine.CheckResult{
		"instances": func() porcupine.CheckResult {
			return porcupine.CheckOperationsTimeout(registerModel, observed(l.instances.all), time.Minute)
		},
		"volume permits": func() porcupine.CheckResult {
			return porcupine.CheckOperationsTimeout(permitModel, l.volumes.all, time.Minute)
		},
	} {
		if result := check(); result != porcupine.Ok {
			verdict = "no"
			l.w.t.Errorf("what clients saw of %s is not linearizable: %s", name, result)
		}
	}
	c.Figure("linearizable", "%s: %d operations on instances and %d on permits, outcome unknown of %d", verdict,
		len(l.instances.all), len(l.volumes.all), l.instances.unknown+l.volumes.unknown)
}

// shares are how often each controller acknowledged.
func shares(all ...map[string]int) string {
	sum := map[string]int{}
	for _, each := range all {
		for name, n := range each {
			sum[name] += n
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, sum[name]))
	}
	return strings.Join(parts, ", ")
}

// gap is the longest time without any of these, which are in order.
func gap(times []time.Time, from, to time.Time) (longest time.Duration) {
	last := from
	for _, at := range times {
		if at.Before(from) || at.After(to) {
			continue
		}
		longest = max(longest, at.Sub(last))
		last = at
	}
	return max(longest, to.Sub(last))
}
