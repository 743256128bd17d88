package cluster

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// Pull beside push: the spec's request done by nodehitch, and then by what a MgmtDriver
// does in instantiate_end, one machine after the other over SSH. Both begin when the
// machines are powered on and end when the volumes are Available; what the push needs of
// an image, sshd and kubectl, is not in its time, and neither waits where it need not.
func TestPush(t *testing.T) {
	r := results.Begin(t, suite, "push", "the spec's request by nodehitch, and the same steps by SSH, one machine after the other, in the same lab")
	results.LongOnly(t)
	w := newWorld(t)
	c := w.newCluster()
	defer c.explain()
	pulled := c.stand(r)
	c.destroy(c.machines...)

	w.newKubernetes()
	p := &push{cluster: w.newCluster()}
	pushed := p.stand(r)
	r.Figure("nodehitch", "%.1f s", pulled.Seconds())
	r.Figure("SSH push", "%.1f s", pushed.Seconds())
	r.Figure("push takes", "%.2f times as long", pushed.Seconds()/pulled.Seconds())
}

// push is a cluster whose machines are brought to their roles over SSH.
type push struct {
	*cluster
	key ssh.Signer
}

func (p *push) stand(r *results.Case) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.bootThen(nil, func(*machine) error { return nil }, p.topology.Servers...)
	booted := time.Since(began)
	r.Figure("of the push, the machines boot", "%.1f s", booted.Seconds())
	p.prepare()

	began = time.Now()
	p.step(r, "storage server", p.storage(), append([]string{
		"apt-get update", "DEBIAN_FRONTEND=noninteractive apt-get install -y nfs-kernel-server",
		"mkfs -t ext4 " + p.volume.Link(), "mkdir -p /volume", "mount " + p.volume.Link() + " /volume",
	}, p.exports()...)...)
	for _, m := range append(p.of(masterPoint), p.workers()...) {
		p.step(r, "NFS client of "+m.Name(), m, "apt-get update", "DEBIAN_FRONTEND=noninteractive apt-get install -y nfs-common")
	}
	p.step(r, "volumes", p.master(), p.registration()...)
	driven := time.Since(began)
	p.available(p.storage().Address())
	return booted + driven
}

// prepare does what makes up for the image, and takes no time.
func (p *push) prepare() {
	p.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	authorized, err := ssh.NewPublicKey(public)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.key, err = ssh.NewSignerFromKey(private); err != nil {
		p.t.Fatal(err)
	}
	for _, m := range p.machines {
		if err := p.Lab.InstallSSH(p.t.Context(), m, ssh.MarshalAuthorizedKey(authorized)); err != nil {
			p.t.Fatal(err)
		}
	}
	p.install(p.master())
	kubectl, err := os.ReadFile(p.kube.Binary("kubectl"))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.master().Push(p.t.Context(), "/usr/local/bin/kubectl", 0o755, kubectl); err != nil {
		p.t.Fatal(err)
	}
}

func (p *push) exports() (commands []string) {
	for i := range volumeNames {
		directory := fmt.Sprintf("/volume/nfs/pv%d", i+1)
		commands = append(commands, "mkdir -p "+directory, "chown nobody:nogroup "+directory,
			"echo '"+directory+" 10.10.0.0/24(rw,sync,no_subtree_check,insecure,all_squash)' >>/etc/exports")
	}
	return append(commands, "exportfs -ra", "systemctl is-active nfs-server")
}

// server is the line of a manifest that names the NFS server.
var server = regexp.MustCompile(`(?m)^( +server: ).*$`)

// registration are the manifests with the address put in by text, as the samples do it.
func (p *push) registration() (commands []string) {
	p.t.Helper()
	for _, name := range volumeNames {
		manifest, err := os.ReadFile(filepath.Join(packageDir, "Files/kubernetes", name+".yaml"))
		if err != nil {
			p.t.Fatal(err)
		}
		text := server.ReplaceAllString(string(manifest), "${1}"+p.storage().Address().String())
		path := "/tmp/" + name + ".yaml"
		commands = append(commands, "cat >"+path+" <<'END'\n"+text+"END\n", "kubectl --kubeconfig "+kubeconfig+" apply -f "+path,
			"kubectl --kubeconfig "+kubeconfig+" wait --for=jsonpath={.status.phase}=Available --timeout=150s pv/"+name)
	}
	return commands
}

// step runs commands on a machine over one connection, each in a shell of its own.
func (p *push) step(r *results.Case, what string, m *machine, commands ...string) {
	p.t.Helper()
	began := time.Now()
	address := net.JoinHostPort(m.Address().String(), "22")
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	raw, err := p.Lab.Dial(ctx, "tcp", address)
	if err != nil {
		p.t.Fatal(err)
	}
	// The machine is new: there is no key of its own to know.
	connection, channels, requests, err := ssh.NewClientConn(raw, address, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(p.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // a lab's machine
	})
	if err != nil {
		p.t.Fatal(err)
	}
	client := ssh.NewClient(connection, channels, requests)
	defer func() { _ = client.Close() }()
	for _, command := range commands {
		session, err := client.NewSession()
		if err != nil {
			p.t.Fatal(err)
		}
		if out, err := session.CombinedOutput(command); err != nil {
			p.t.Fatalf("%s: %s: %v\n%s", m.Name(), command, err, out)
		}
	}
	r.Figure("of the push, "+what, "%s", seconds(began))
}
