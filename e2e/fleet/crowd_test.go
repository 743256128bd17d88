package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/agent/config"
)

// order is what a crowd is told first, on one line of its standard input; each
// further line asks for its tally.
type order struct {
	Config config.Config
	// Dir is where the agents keep their state.
	Dir string
	// Members are the agents.
	Members []member
	// From is the number of the first agent's source address.
	From int
}

// member is a server and its instance's join token.
type member struct{ ID, Token string }

// tally is the state of the agents.
type tally struct {
	// Connected agents have had a good answer to their last call.
	Connected int
	// Digests is how many agents have which document in force.
	Digests map[string]int
	// Dials are connections made since the last tally, Refused those that were not
	// accepted, by the tenth of a second since 1970 in which they were.
	Dials, Refused map[int64]int
	// Open connections now.
	Open int
	// Errors are the errors in the agents' logs since the last tally, and how often.
	Errors map[string]int
}

// crowd is the main program of a crowd.
func crowd() int {
	debug.SetGCPercent(400) // only its CPU time matters
	input := bufio.NewReader(os.Stdin)
	var o order
	line, err := input.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		return 1
	}
	c := &counter{}
	agents := make([]*agent, len(o.Members))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i, m := range o.Members {
		a, err := newAgent(o, m, c, i)
		if err != nil {
			fmt.Fprintln(os.Stderr, "crowd:", err)
			cancel()
			return 1
		}
		agents[i] = a
		running.Go(func() { a.run(ctx) })
	}
	out := json.NewEncoder(os.Stdout)
	for {
		if _, err := input.ReadBytes('\n'); err != nil {
			break
		}
		t := c.take()
		if t.Connected, err = connected(agents); err != nil {
			fmt.Fprintln(os.Stderr, "crowd:", err)
			break
		}
		if err := out.Encode(t); err != nil {
			break
		}
	}
	cancel()
	running.Wait()
	return 0
}

// connected is how many agents have had a good answer to their last call.
func connected(agents []*agent) (n int, err error) {
	for _, a := range agents {
		is, err := a.connected()
		if err != nil {
			return 0, err
		}
		if is {
			n++
		}
	}
	return n, nil
}

// counter keeps the tally, but for what the agents' status files say.
type counter struct {
	mu      sync.Mutex
	open    int
	digests map[string]int
	since   tally
}

func (c *counter) take() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.since
	c.since = tally{}
	t.Open = c.open
	t.Digests = map[string]int{}
	for digest, n := range c.digests {
		if n > 0 {
			t.Digests[digest] = n
		}
	}
	return t
}

func (c *counter) count(what *map[int64]int) {
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
		c.count(&c.since.Refused)
		return nil
	}
	c.count(&c.since.Dials)
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
