package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	// registerClients write and read instances; the first half of them have an instance each,
	// which nobody else writes.
	registerClients = 14
	sharedRegisters = 4
	// pace of each client between two calls.
	pace = 150 * time.Millisecond
)

// register is an instance as a register: its value is the proxy in its parameters.
type register struct {
	name string
	// value to write; "" reads.
	value string
}

// registerModel: a write replaces, a read sees the last one; "" before the first.
var registerModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		return partition(all, func(o porcupine.Operation) string { return o.Input.(register).name })
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(register); in.value != "" {
			return true, in.value
		}
		return output.(string) == state.(string), state
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, output) },
}

func partition(all []porcupine.Operation, key func(porcupine.Operation) string) (parts [][]porcupine.Operation) {
	by := map[string]int{}
	for _, o := range all {
		name := key(o)
		if _, known := by[name]; !known {
			by[name] = len(parts)
			parts = append(parts, nil)
		}
		parts[by[name]] = append(parts[by[name]], o)
	}
	return parts
}

// history is what clients have seen of one kind of thing. Its times are nanoseconds since it
// began.
type history struct {
	began time.Time

	mu      sync.Mutex
	all     []porcupine.Operation
	unknown int
	// acknowledged are when writes were.
	acknowledged []time.Time
	// by is how often which controller has acknowledged.
	by map[string]int
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

// add notes an operation with what is known of it, and who answered. write says that it may
// have changed something.
func (h *history) add(o porcupine.Operation, result outcome, write bool, by string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch result {
	case unknown:
		if !write {
			return // it has answered nothing
		}
		h.unknown++
		o.Return = math.MaxInt64 // it may be done at any time from now on, or never
	case done:
		h.by[by]++
		if write {
			h.acknowledged = append(h.acknowledged, time.Now())
		}
	}
	h.all = append(h.all, o)
}

func (h *history) acknowledgements() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acknowledged)
}

// registerID is the instance of a register.
func registerID(phase int, name int) string { return id(7, phase*100+name) }

// registers runs one client of registers until ctx ends.
func (l *load) registers(ctx context.Context, number int) {
	c := l.callers[number]
	for n := 1; sleep(ctx, pace/2+rand.N(pace)); n++ {
		name := number
		if number >= registerClients/2 {
			name = registerClients + rand.IntN(sharedRegisters)
		}
		r := register{name: registerID(l.phase, name)}
		if rand.IntN(2) == 0 {
			r.value = fmt.Sprintf("http://p%d.c%d.n%d", l.phase, number, n)
		}
		_ = l.register(c, number, r) // it has noted what it knows
	}
}

// register does one operation and notes it.
func (l *load) register(c *caller, number int, r register) error {
	o := porcupine.Operation{ClientId: number, Input: r, Output: "", Call: l.instances.now()}
	by := l.w.controllers[c.at].name
	// It is not the client's end that ends a call.
	ctx := l.w.t.Context()
	result, err := c.once(func(a *client.Controller) error {
		if r.value != "" {
			return client.Done(a.PutInstance(ctx, r.name, nil, spec(l.w.t, loopback.ClusterParams(r.value), nil)))
		}
		i, err := client.Read[api.Instance](a.GetInstance(ctx, r.name, nil))
		if client.Status(err) == http.StatusNotFound {
			return nil
		}
		if err == nil {
			o.Output, err = proxyOf(i)
		}
		return err
	})
	o.Return = l.instances.now()
	if result == not {
		if !dialed(err) && !passes(err) {
			l.fail("a request of a client was refused: %v", err)
		}
		return err
	}
	l.instances.add(o, result, r.value != "", by)
	return err
}

func proxyOf(i *api.Instance) (string, error) {
	var p struct {
		Cluster struct {
			Proxy struct {
				Proxy string `json:"http_proxy"`
			} `json:"proxy"`
		} `json:"k8s_cluster_installation_param"`
	}
	err := json.Unmarshal(i.AdditionalParams, &p)
	if err == nil && p.Cluster.Proxy.Proxy == "" {
		err = errors.New("an instance without its parameters")
	}
	return p.Cluster.Proxy.Proxy, err
}

// observed drops writes with an unknown outcome that nobody has read, which change nothing of
// what the history says, so that it is checked in seconds.
func observed(all []porcupine.Operation) (kept []porcupine.Operation) {
	read := map[string]bool{}
	for _, o := range all {
		read[o.Output.(string)] = true
	}
	for _, o := range all {
		if o.Return != math.MaxInt64 || read[o.Input.(register).value] {
			kept = append(kept, o)
		}
	}
	return kept
}

// lost counts the instances with one client whose last acknowledged change is not what was
// read at the end, nor a later one of that client's.
func (l *load) lost() (lost int) {
	last, sequence := map[string]string{}, map[string]int{}
	for _, o := range l.instances.all {
		r := o.Input.(register)
		switch {
		case o.ClientId >= registerClients/2 && o.ClientId != finalReader:
		case r.value != "":
			sequence[r.value] = len(sequence) + 1
			if o.Return != math.MaxInt64 {
				last[r.name] = r.value
			}
		case o.ClientId == finalReader && sequence[o.Output.(string)] < sequence[last[r.name]]:
			lost++
			l.w.t.Errorf("%s: %s was acknowledged last, and %q is there", r.name, last[r.name], o.Output)
		}
	}
	return lost
}
