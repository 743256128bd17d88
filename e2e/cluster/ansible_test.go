package cluster

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
)

// playbook makes ansible run the steps of a machine as one task: each further task would
// start a Python on every machine.
const playbook = `
- hosts: all
  gather_facts: false
  strategy: free
  tasks:
    - name: the machine's role
      ansible.builtin.shell: "{{ role }}"
- hosts: master
  gather_facts: false
  tasks:
    - name: volumes
      ansible.builtin.shell: "{{ volumes }}"
`

// configuration is the fastest that ansible has. A machine of a small share is slow to
// answer.
const configuration = `[defaults]
host_key_checking = False
forks = 100
timeout = 120
[ssh_connection]
pipelining = True
`

// byAnsible is all machines at once, driven from a machine of the lab.
func (p *push) byAnsible(*results.Case) time.Duration {
	p.T.Helper()
	ctx := p.T.Context()
	for path, text := range map[string]string{
		"/root/ansible.cfg": configuration, "/root/play.yml": playbook, "/root/inventory.json": p.inventory(), "/root/.ssh/id_ed25519": string(p.private),
	} {
		if err := p.control.Push(ctx, path, 0o600, []byte(text)); err != nil {
			p.T.Fatal(err)
		}
	}
	before := p.controlTime()
	// As a unit, so that its CPU time is the machine's.
	p.control.Run("systemd-run", "--quiet", "--wait", "--pipe", "--working-directory=/root", "--setenv=HOME=/root",
		"ansible-playbook", "--inventory", "inventory.json", "play.yml")
	return p.controlTime() - before
}

func (p *push) controlTime() time.Duration {
	p.T.Helper()
	used, err := p.Lab.CPUTime(p.control)
	if err != nil {
		p.T.Fatal(err)
	}
	return used
}

// ansible is a machine that has it, and no share of its own.
func (w *world) ansible() *sitetest.Machine {
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
	return &sitetest.Machine{Node: node, W: w.World}
}

// inventory is all machines, each with what it has to do.
func (p *push) inventory() string {
	p.T.Helper()
	script := func(steps []string) string { return "set -e\n" + strings.Join(steps, "\n") }
	hosts := map[string]any{}
	for _, m := range p.Up() {
		steps := clientSteps
		if virtual(m) {
			steps = p.storageSteps()
		}
		hosts[m.Name()] = map[string]string{"ansible_host": m.Address().String(), "ansible_user": "root", "ansible_python_interpreter": "/usr/bin/python3", "role": script(steps)}
	}
	master := map[string]any{p.master().Name(): map[string]string{"volumes": script(p.registration())}}
	text, err := json.Marshal(map[string]any{"all": map[string]any{
		"hosts": hosts, "children": map[string]any{"master": map[string]any{"hosts": master}},
	}})
	if err != nil {
		p.T.Fatal(err)
	}
	return string(text)
}
