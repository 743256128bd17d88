package cluster

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/peers"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// Pull beside push: the spec's request done by nodehitch, and then by what a MgmtDriver
// does in instantiate_end, one machine after the other over SSH. Both begin when the
// machines are powered on and end when the volumes are Available. The time to install sshd
// and kubectl, which the push needs, does not count, and neither waits without need.
func TestPush(t *testing.T) {
	r := results.Begin(t, suite, "push", "the spec's request by nodehitch, and the same steps by SSH, one machine after the other, in the same lab")
	results.LongOnly(t)
	w := newWorld(t)
	pulled := w.pulls(r, shape{workers: 2})
	pushed := w.pushes(r, shape{workers: 2}, (*push).serially)
	pulled.figure(r, "nodehitch")
	pushed.figure(r, "SSH push")
	r.Figure("push takes", "%.2f times as long", pushed.took.Seconds()/pulled.took.Seconds())
}

// pulls is what a cluster costs by nodehitch; it is gone then.
func (w *world) pulls(r *results.Case, s shape) cost {
	w.T.Helper()
	c := w.newClusterOf(s)
	defer c.Explain()
	spent := c.stand(r)
	c.Destroy(c.Up()...)
	return spent
}

// pushes is what a cluster costs whose machines are driven over SSH; it is gone then.
func (w *world) pushes(r *results.Case, s shape, drive func(*push, *results.Case) time.Duration) cost {
	w.T.Helper()
	w.newKubernetes()
	p := &push{cluster: w.newClusterOf(s)}
	spent := p.stand(r, drive)
	p.Destroy(p.Up()...)
	return spent
}

// push is a cluster whose machines are brought to their roles over SSH.
type push struct {
	*cluster
	key *peers.Key
}

// stand calls drive for all that is done over SSH; drive returns its own CPU time.
// cloud-init is part of the boot: no image serves SSH before it has made keys.
func (p *push) stand(r *results.Case, drive func(*push, *results.Case) time.Duration) cost {
	p.T.Helper()
	began := time.Now()
	p.bootThen(nil, func(m lab.Node, _ bool) error { return m.WaitCloudInit(p.T.Context()) }, p.Topology.Servers...)
	spent := cost{took: time.Since(began), used: p.machineTime()}
	r.Figure("push: the machines boot", "%.1f s", spent.took.Seconds())
	p.prepare()

	prepared := p.machineTime()
	began = time.Now()
	spent.driver = drive(p, r)
	kubetest.Available(p.T, p.kube, p.storage().Address())
	spent.took += time.Since(began)
	spent.used = spent.used.plus(p.machineTime().minus(prepared))
	return spent
}

// serially is one machine after the other.
func (p *push) serially(r *results.Case) time.Duration {
	p.T.Helper()
	before := ownTime(p.T)
	p.step(r, "storage server", p.storage(), p.storageSteps()...)
	for _, m := range append(p.Of(masterPoint), p.workers()...) {
		p.step(r, "NFS client of "+m.Name(), m, clientSteps...)
	}
	p.step(r, "volumes", p.master(), p.registration()...)
	return ownTime(p.T) - before
}

// ownTime is the CPU time of this process, which is the one that speaks SSH.
func ownTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// prepare does what makes up for the image, and takes no time.
func (p *push) prepare() {
	p.T.Helper()
	p.key = peers.NewKey(p.T)
	if err := p.key.Admit(p.T.Context(), p.Lab, p.Up()...); err != nil {
		p.T.Fatal(err)
	}
	p.install(p.master())
	kubectl, err := os.ReadFile(p.kube.Binary("kubectl"))
	if err != nil {
		p.T.Fatal(err)
	}
	if err := p.master().Push(p.T.Context(), "/usr/local/bin/kubectl", 0o755, kubectl); err != nil {
		p.T.Fatal(err)
	}
}

// clientSteps make a machine an NFS client.
var clientSteps = []string{"apt-get update", "DEBIAN_FRONTEND=noninteractive apt-get install -y nfs-common"}

// storageSteps make the storage server.
func (p *push) storageSteps() []string {
	return append([]string{"apt-get update", "DEBIAN_FRONTEND=noninteractive apt-get install -y nfs-kernel-server"}, peers.StorageSteps(p.volume)...)
}

func (p *push) registration() []string {
	p.T.Helper()
	return peers.RegistrationSteps(p.T, packageDir+"/Files/kubernetes", p.storage().Address())
}

// step runs commands on a machine over one connection, each in a shell of its own.
func (p *push) step(r *results.Case, what string, m *sitetest.Machine, commands ...string) {
	p.T.Helper()
	began := time.Now()
	address := net.JoinHostPort(m.Address().String(), "22")
	ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Minute)
	defer cancel()
	raw, err := p.Lab.Dial(ctx, "tcp", address)
	if err != nil {
		p.T.Fatal(err)
	}
	// The machine is new: there is no key of its own to know.
	connection, channels, requests, err := ssh.NewClientConn(raw, address, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(p.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), // a lab's machine
	})
	if err != nil {
		p.T.Fatal(err)
	}
	client := ssh.NewClient(connection, channels, requests)
	defer func() { _ = client.Close() }()
	for _, command := range commands {
		session, err := client.NewSession()
		if err != nil {
			p.T.Fatal(err)
		}
		if out, err := session.CombinedOutput(command); err != nil {
			p.T.Fatalf("%s: %s: %v\n%s", m.Name(), command, err, out)
		}
	}
	r.Figure("push: "+what, "%s", seconds(began))
}
