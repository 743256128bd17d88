package cluster

import (
	"time"

	"github.com/nodehitch/nodehitch/e2e/peers"
	"github.com/nodehitch/nodehitch/e2e/results"
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

// byAnsible is all machines at once, driven from a machine of the lab.
func (p *push) byAnsible(*results.Case) time.Duration {
	p.T.Helper()
	before := p.controlTime()
	peers.Play(p.control, p.key, playbook, p.inventory())
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

// inventory is all machines, each with what it has to do.
func (p *push) inventory() map[string]any {
	p.T.Helper()
	hosts := map[string]any{}
	for _, m := range p.Up() {
		steps := clientSteps
		if p.virtual(m.Server) {
			steps = p.storageSteps()
		}
		hosts[m.Name()] = peers.Host(m, map[string]any{"role": peers.Script(steps...)})
	}
	master := map[string]any{p.master().Name(): map[string]string{"volumes": peers.Script(p.registration()...)}}
	return map[string]any{"all": map[string]any{
		"hosts": hosts, "children": map[string]any{"master": map[string]any{"hosts": master}},
	}}
}
