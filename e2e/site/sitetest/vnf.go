package sitetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// VNF is an instance, its stack, which the test changes as Heat does, and its machines.
type VNF struct {
	ID       string
	Topology api.Topology
	// Kills is what is killed while operations are in progress.
	Kills Kills

	w    *World
	made int // servers, for their names

	mu sync.Mutex
	up []*Machine // in the order of their boot
}

// NewVNF makes an instance with an empty stack. The controller does not know it yet.
func (w *World) NewVNF() *VNF {
	return &VNF{ID: uuid.NewString(), w: w, Topology: api.Topology{StackID: uuid.NewString(), StackStatus: "CREATE_COMPLETE"}}
}

// Draw adds a server to the stack, on a connection point, with an unused address of the lab
// unless it has others.
func (v *VNF) Draw(name, point, aspect string, addresses ...netip.Addr) api.Server {
	return v.add(api.Server{Name: name, VnfcInstanceID: uuid.NewString(), AspectID: aspect, ConnectionPoints: []api.ConnectionPoint{{Name: point}}}, addresses)
}

// Redraw puts a new server in the place of one: Tacker keeps the VNFC instance's id.
func (v *VNF) Redraw(old api.Server, addresses ...netip.Addr) api.Server {
	v.Drop(old)
	old.Name, _, _ = strings.Cut(old.Name, "-")
	return v.add(old, addresses)
}

func (v *VNF) add(s api.Server, addresses []netip.Addr) api.Server {
	v.made++
	s.ID, s.Name = uuid.NewString(), fmt.Sprintf("%s-%d", s.Name, v.made)
	if addresses == nil {
		addresses = []netip.Addr{v.w.Address()}
	}
	s.ConnectionPoints = []api.ConnectionPoint{{Name: Point(s)}}
	for _, a := range addresses {
		s.ConnectionPoints[0].Addresses = append(s.ConnectionPoints[0].Addresses, a.String())
	}
	v.Topology.Servers = append(slices.Clone(v.Topology.Servers), s)
	return s
}

// Drop takes a server out of the stack.
func (v *VNF) Drop(s api.Server) {
	v.Topology.Servers = slices.DeleteFunc(slices.Clone(v.Topology.Servers), func(o api.Server) bool { return o.ID == s.ID })
}

// Point is the connection point that makes a server what it is.
func Point(s api.Server) string { return s.ConnectionPoints[0].Name }

// Apply hands a request, unchanged, and the VNF package to the controller, as Tacker's hook or
// an operator does.
func (v *VNF) Apply(body, folder string) {
	v.w.T.Helper()
	v.w.Must("validate", "-f", body, "--package", folder)
	v.w.Must("apply", v.ID, "-f", body, "--package", folder, "--topology", v.w.File("topology.json", v.Topology))
}

// UserData is what the instance's machines boot with.
func (v *VNF) UserData() []byte {
	v.w.T.Helper()
	return []byte(v.w.Must("render", "user-data", v.ID))
}

// Spec is the machine of a server, at its address if that is one of the lab.
func Spec(s api.Server, userData []byte) lab.Spec {
	spec := lab.Spec{Name: strings.ReplaceAll(s.Name, "_", "-"), ServerID: s.ID, UserData: userData}
	if a := netip.MustParseAddr(s.ConnectionPoints[0].Addresses[0]); lab.Subnet.Contains(a) {
		spec.Address = a
	}
	return spec
}

// Boot boots machines of the stack side by side.
func (v *VNF) Boot(start func(context.Context, lab.Spec) (lab.Node, error), specs ...lab.Spec) []*Machine {
	v.w.T.Helper()
	machines, errs := make([]*Machine, len(specs)), make([]error, len(specs))
	var all sync.WaitGroup
	for i, spec := range specs {
		server := slices.IndexFunc(v.Topology.Servers, func(s api.Server) bool { return s.ID == spec.ServerID })
		all.Go(func() {
			node, err := start(v.w.T.Context(), spec)
			machines[i], errs[i] = &Machine{node, v.w, v.Topology.Servers[server]}, err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		v.w.T.Fatal(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.up = append(v.up, machines...)
	return machines
}

// Up are the machines that are up.
func (v *VNF) Up() []*Machine {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.up)
}

// Of are the machines that are up whose servers are on a connection point.
func (v *VNF) Of(point string) []*Machine {
	return slices.DeleteFunc(v.Up(), func(m *Machine) bool { return Point(m.Server) != point })
}

// Leave has machines that run on where nobody reaches them: they are not up any more.
func (v *VNF) Leave(list ...*Machine) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.up = slices.DeleteFunc(v.up, func(m *Machine) bool { return slices.Contains(list, m) })
}

// Destroy takes machines away, as Nova does; their servers stay in the stack.
func (v *VNF) Destroy(list ...*Machine) {
	v.w.T.Helper()
	v.Leave(list...)
	for _, m := range list {
		if err := m.Destroy(); err != nil {
			v.w.T.Fatal(err)
		}
	}
}

// Explain shows what the machines have to say if the test has failed.
func (v *VNF) Explain() {
	for _, m := range v.Up() {
		Explain(v.w.T, m)
	}
}

// The flags of operations. Without PhaseStart an operation is an END.
const (
	PhaseStart = "--phase=" + string(api.PhaseStart)
	ByOne      = "--number-of-steps=1"
)

// VNFC is the flag that names a server.
func VNFC(s api.Server) string { return "--vnfc-instance-id=" + s.VnfcInstanceID }

// Begin runs an operation with the present stack, and kills meanwhile what is to be killed.
// The channel gets its outcome.
func (v *VNF) Begin(operation api.OperationType, flags ...string) <-chan Answer {
	v.w.T.Helper()
	args := append([]string{"operate", v.ID, string(operation), "--wait", "--topology", v.w.File("topology.json", v.Topology)}, flags...)
	onLine, ended := v.during(v.Up()), make(chan Answer, 1)
	go func() { ended <- v.w.follow(args, onLine) }()
	return ended
}

// Operate runs an operation that has to complete.
func (v *VNF) Operate(operation api.OperationType, flags ...string) Answer {
	v.w.T.Helper()
	return v.Completes(v.Begin(operation, flags...))
}

// Completes waits for the end of an operation that has begun.
func (v *VNF) Completes(begun <-chan Answer) Answer {
	v.w.T.Helper()
	s := <-begun
	if s.Code != 0 {
		v.w.T.Fatal(s)
	}
	return s
}

// LastOperation is the operation that began last, as the controller has it.
func (v *VNF) LastOperation() api.Operation {
	v.w.T.Helper()
	var list api.OperationList
	v.w.Until("the controller lists its operations", func() error { // it may be killed just now
		return v.w.JSON(v.w.T.Context(), &list, "get", "operations", "--instance", v.ID)
	})
	return slices.MaxFunc(list.Items, func(a, b api.Operation) int { return int(a.Sequence - b.Sequence) })
}
