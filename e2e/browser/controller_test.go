package browser

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// controller is a controller with a fleet.
type controller struct {
	*loopback.Controller
	t         testing.TB
	instances []string
	machines  []*loopback.Machine
}

func newController(t testing.TB) *controller {
	t.Helper()
	return &controller{t: t, Controller: loopback.Open(t, loopback.Options{Settings: map[string]string{
		"metricsListen": loopback.FreeAddress(t), "log": "{level: debug}", "pollSeconds": "300", "convergeSeconds": "86400",
	}})}
}

func (w *controller) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// id is the n-th UUID of a kind.
func id(kind, n int) string { return fmt.Sprintf("b0057000-0000-4000-8%03d-%012d", kind, n) }

// perInstance is how many servers a VNF instance has.
const perInstance = 100

// fleet makes so many workers and enrolls them; they report that they are what they should be.
func (w *controller) fleet(nodes int) {
	w.t.Helper()
	var wait sync.WaitGroup
	todo := make(chan func() error)
	errs := make(chan error, nodes)
	for range 4 {
		wait.Go(func() {
			for do := range todo {
				if err := do(); err != nil {
					errs <- err
				}
			}
		})
	}
	for n := 0; n < nodes; n += perInstance {
		instance := id(0, len(w.instances))
		w.instances = append(w.instances, instance)
		w.PutParams(instance, loopback.ClusterParams(""), loopback.Workers(id, n, min(perInstance, nodes-n)))
		token := w.JoinToken(instance)
		for i := n; i < min(nodes, n+perInstance); i++ {
			m := w.machine(i)
			w.machines = append(w.machines, m)
			todo <- func() error {
				if err := m.Enroll(w.t.Context(), token); err != nil {
					return err
				}
				return w.report(m, "5.10.0-1")
			}
		}
	}
	close(todo)
	wait.Wait()
	close(errs)
	for err := range errs {
		w.t.Fatal(err)
	}
}

// machine is the i-th server, which calls from an address of its own, as machines do.
func (w *controller) machine(i int) *loopback.Machine {
	m := w.Machine(id(1, i))
	dialer := &net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i/250), byte(1+i%250))}}
	m.Dial = dialer.DialContext
	return m
}

// report reports a converged machine with this kernel.
func (w *controller) report(m *loopback.Machine, kernel string) error {
	config, err := m.Config(w.t.Context())
	if err != nil {
		return err
	}
	s := loopback.Converged(*config)
	s.Facts = api.Facts{Hostname: m.ServerID, AgentVersion: "v0.1.0", Architecture: "amd64", KernelVersion: kernel, OSImage: "Debian GNU/Linux 12 (bookworm)"}
	return m.Report(context.WithoutCancel(w.t.Context()), s)
}
