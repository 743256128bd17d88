// Package crowd runs thousands of the product's agents, with a step that touches nothing, in
// one process beside the controller's, and counts what they see. A test binary becomes that
// process if its TestMain calls Main.
package crowd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/agent/config"
)

// Order is what a crowd is told first, on one line of its standard input; each
// further line asks for its tally.
type Order struct {
	Config config.Config
	// Dir is where the agents keep their state.
	Dir string
	// Members are the agents.
	Members []Member
	// Network is the /16 from which the agents call, each from an address of its own, as
	// machines do: the n-th agent of Members from the one of number From+n.
	Network netip.Prefix
	From    int
}

// Member is a server, its instance's join token, and the controller's URLs in the order in
// which to try them; none for those of Config.
type Member struct {
	ID, Token string
	URLs      []string
}

// Tally is the state of the agents.
type Tally struct {
	// Connected agents have had a good answer to their last call.
	Connected int
	// Digests is how many agents have which document in force.
	Digests map[string]int
	// Dials are connections made since the last tally, Refused those that were not
	// accepted, by the tenth of a second since 1970 in which they were.
	Dials, Refused map[int64]int
	// Longest is the longest time between two good answers to one agent, or since its last
	// one, since the last tally, as its status file shows them; 0 before the first.
	Longest time.Duration
	// Oldest is the time since the last good answer to the agent that has waited longest;
	// nothing is known of agents that had none.
	Oldest time.Duration
	// Open connections now.
	Open int
	// Enrolled is how often an agent has enrolled since the last tally.
	Enrolled int
	// Errors are the errors in the agents' logs since the last tally, and how often.
	Errors map[string]int
}

const variable = "NODEHITCH_TEST_CROWD"

// Main runs a crowd if this process is to be one, and then does not return.
func Main() {
	if os.Getenv(variable) == "" {
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run() error {
	debug.SetGCPercent(400) // only its CPU time matters
	input := bufio.NewReader(os.Stdin)
	var o Order
	line, err := input.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		return err
	}
	c := &counter{}
	agents := make([]*agent, len(o.Members))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i, m := range o.Members {
		a, err := newAgent(o, m, c, i)
		if err != nil {
			return err
		}
		agents[i] = a
		running.Go(func() { a.run(ctx) })
	}
	running.Go(func() { c.watch(ctx, agents) })
	out := json.NewEncoder(os.Stdout)
	for {
		if _, err := input.ReadBytes('\n'); err != nil {
			return nil
		}
		c.look(agents)
		t, err := c.take(agents)
		if err == nil {
			err = out.Encode(t)
		}
		if err != nil {
			return err
		}
	}
}

// watch reads the status files once a second.
func (c *counter) watch(ctx context.Context, agents []*agent) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.look(agents)
		}
	}
}

// look reads the status files that have changed.
func (c *counter) look(agents []*agent) {
	c.looking.Lock()
	defer c.looking.Unlock()
	for _, a := range agents {
		before := a.contact
		if err := a.look(); err != nil {
			c.failed(err)
		}
		if !before.IsZero() {
			a.longest = max(a.longest, a.contact.Sub(before))
		}
	}
}

// counter keeps the tally, but for what the agents' status files say.
type counter struct {
	looking sync.Mutex // held while status files are read

	mu      sync.Mutex
	open    int
	digests map[string]int
	since   Tally
	err     error
}

func (c *counter) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *counter) take(agents []*agent) (Tally, error) {
	c.looking.Lock()
	defer c.looking.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.since
	c.since = Tally{}
	t.Open = c.open
	t.Digests = map[string]int{}
	for digest, n := range c.digests {
		if n > 0 {
			t.Digests[digest] = n
		}
	}
	for _, a := range agents {
		if a.answered {
			t.Connected++
		}
		if !a.contact.IsZero() {
			t.Oldest = max(t.Oldest, time.Since(a.contact))
			t.Longest = max(t.Longest, a.longest, t.Oldest)
		}
		a.longest = 0
	}
	return t, c.err
}

func count(what *map[int64]int) {
	if *what == nil {
		*what = map[int64]int{}
	}
	(*what)[time.Now().UnixMilli()/100]++
}

// dialed counts an attempt to connect.
func (c *counter) dialed(conn net.Conn, err error) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		count(&c.since.Refused)
		return nil
	}
	count(&c.since.Dials)
	c.open++
	return &counted{Conn: conn, counter: c}
}

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	counter *counter
	once    sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.counter.mu.Lock()
		defer c.counter.mu.Unlock()
		c.counter.open--
	})
	return c.Conn.Close()
}

// moved counts an agent that has another document in force than before.
func (c *counter) moved(from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.digests == nil {
		c.digests = map[string]int{}
	}
	c.digests[from]--
	c.digests[to]++
}
