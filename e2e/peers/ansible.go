package peers

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// Key is a key pair for SSH.
type Key struct {
	ssh.Signer
	private []byte // the same, as OpenSSH has it
}

// NewKey makes a new pair.
func NewKey(t testing.TB) *Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return &Key{signer, pem.EncodeToMemory(block)}
}

// Admit lets the holder of the key log in to machines over SSH, as root.
func (k *Key) Admit(ctx context.Context, l *lab.Lab, machines ...*sitetest.Machine) error {
	var all errgroup.Group
	for _, m := range machines {
		all.Go(func() error { return l.InstallSSH(ctx, m, ssh.MarshalAuthorizedKey(k.PublicKey())) })
	}
	return all.Wait()
}

// configuration is the fastest that ansible has. A machine of a small share is slow to
// answer.
const configuration = `[defaults]
host_key_checking = False
forks = 100
timeout = 120
[ssh_connection]
pipelining = True
`

// Ansible is a machine that has it, and no share of its own. All others are driven from there.
func Ansible(w *sitetest.World) *sitetest.Machine {
	w.T.Helper()
	node, err := w.Lab.Nspawn(w.T.Context(), lab.Spec{Name: "ansible", Address: w.Address()})
	if err == nil {
		err = node.WaitCloudInit(w.T.Context())
	}
	if err == nil {
		err = w.Lab.InstallPackages(w.T.Context(), node, "ansible", "ansible-core", "openssh-client")
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return &sitetest.Machine{Node: node, W: w}
}

// Host is what the inventory says of a machine: variables of its own.
func Host(m *sitetest.Machine, variables map[string]any) map[string]any {
	host := map[string]any{"ansible_host": m.Address().String(), "ansible_user": "root", "ansible_python_interpreter": "/usr/bin/python3"}
	maps.Copy(host, variables)
	return host
}

// Play has ansible run a playbook.
func Play(control *sitetest.Machine, key *Key, playbook string, inventory map[string]any) {
	control.W.T.Helper()
	hosts, err := json.Marshal(inventory)
	for path, text := range map[string]string{
		"/root/ansible.cfg": configuration, "/root/play.yml": playbook, "/root/inventory.json": string(hosts), "/root/.ssh/id_ed25519": string(key.private),
	} {
		err = errors.Join(err, control.Push(control.W.T.Context(), path, 0o600, []byte(text)))
	}
	if err != nil {
		control.W.T.Fatal(err)
	}
	// As a unit, so that its CPU time is the machine's.
	control.Run("systemd-run", "--quiet", "--wait", "--pipe", "--working-directory=/root", "--setenv=HOME=/root",
		"ansible-playbook", "--inventory", "inventory.json", "play.yml")
}
