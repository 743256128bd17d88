package agentupgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	instanceID = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
	script     = "Scripts/install.sh"
	// ours is the controller's version, first what the nodes run at first, and bad a build that
	// does not work anywhere.
	ours, first, bad = "v1.2.0", "v1.1.0", "v1.1.9"
)

type tester interface {
	controllertest.T
	Errorf(format string, args ...any)
	Context() context.Context
}

// world is a controller with nodes whose agents the test plays.
type world struct {
	tester
	*controllertest.Controller
	machines []*machine
	// mended is in the content of the agents that are carried from now on.
	mended string
	// told is every time that an agent was told another one.
	told int
}

// machine is a node and its agent.
type machine struct {
	id      string
	agent   api.Agent
	managed api.AgentUpgradeManagedBy
	refused map[string]bool
	// upgrade is what the agent reports.
	upgrade api.AgentUpgrade
	// silent: it does not call.
	silent bool
	// broken: it has not proven its document.
	broken bool
}

// affected says whether the machine is between two agents.
func (m *machine) affected() bool {
	return m.upgrade.Reason != api.UpgradeUpToDate && m.upgrade.Reason != api.UpgradeRolledBack
}

func newWorld(t tester, upgrade config.AgentUpgrade, nodes int) *world {
	t.Helper()
	w := &world{tester: t, Controller: controllertest.New(t, controllertest.Options{})}
	w.Config.AgentUpgrade = upgrade
	for i := range nodes {
		w.machines = append(w.machines, &machine{id: fmt.Sprintf("%08d-0000-4000-8000-%012d", 1, i), managed: api.ManagedByController, refused: map[string]bool{},
			agent: api.ThisAgent(first), upgrade: api.AgentUpgrade{Reason: api.UpgradeUpToDate}})
		w.machines[i].agent.Architecture = "amd64"
	}
	w.restart()
	w.put("http://a")
	_, err := w.Files.Put(t.Context(), files.Request{InstanceID: instanceID, Path: script, Body: strings.NewReader("#!/bin/sh\n"), ContentLength: 10})
	w.must(err)
	w.must(w.Lifecycle.Instances.FileStored(t.Context(), instanceID, script))
	token, err := w.Enrollment.JoinToken(t.Context(), instanceID)
	w.must(err)
	address := netip.MustParseAddr("10.0.0.1")
	for _, m := range w.machines {
		address = address.Next() // the rate is limited for each
		_, err := w.Enrollment.Enroll(t.Context(), token, api.EnrollRequest{ServerID: m.id, CertificateRequest: testca.Request(testca.NewKey(), nil)}, address)
		w.must(err)
	}
	w.carry("amd64", ours)
	w.call()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%v", err)
	}
}

// restart is a kill and a new start, of this version.
func (w *world) restart() {
	w.Helper()
	w.Open()
	w.Agents.Version = ours
	w.must(w.Lifecycle.Start(w.Context()))
}

// replace has the controller start on another store.
func (w *world) replace(content []byte) {
	w.Helper()
	w.Replace(content) // the one that is open stays as it is
	w.restart()
}

// carry makes the agent of an architecture one of this version.
func (w *world) carry(arch, version string) {
	w.Helper()
	path := filepath.Join(w.Config.AgentDirectory, "nodehitch-agent-"+arch)
	w.must(os.WriteFile(path, []byte("\x7fELF … nodehitch-version<"+version+"> …"+w.mended), 0o600))
	w.must(os.Chtimes(path, time.Time{}, w.Clock.Now())) // files of one size are told apart by their time
	w.Clock.Advance(time.Second)
}

// put makes every machine a worker behind this proxy.
func (w *world) put(proxy string) {
	w.Helper()
	cp := func(name string) map[string]any { return map[string]any{"ssh_cp_name": name, "nic_cp_name": name} }
	master := cp("master_CP")
	master["cluster_cp_name"] = "master_CP"
	params, err := json.Marshal(map[string]any{"k8s_cluster_installation_param": map[string]any{
		"script_path": script, "master_node": master, "worker_node": cp("worker_CP"), "proxy": map[string]any{"http_proxy": proxy}}})
	w.must(err)
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE"}
	for i, m := range w.machines {
		topology.Servers = append(topology.Servers, api.Server{ID: m.id, Name: fmt.Sprintf("worker%d", i),
			ConnectionPoints: []api.ConnectionPoint{{Name: "worker_CP", Addresses: []string{fmt.Sprintf("10.10.0.%d", 10+i)}}}})
	}
	_, _, err = w.Lifecycle.Instances.PutInstance(w.Context(), instanceID, api.InstanceSpec{AdditionalParams: params, Topology: topology})
	w.must(err)
}

// operate begins an END whose targets are all nodes, false if there is one in progress.
func (w *world) operate(proxy string) bool {
	w.Helper()
	w.put(proxy)
	_, err := w.Lifecycle.Operations.PostOperation(w.Context(), instanceID, api.OperationRequest{Operation: api.Instantiate, Phase: api.PhaseEnd, Partial: true})
	var p *api.Problem
	if errors.As(err, &p) {
		return false
	}
	w.must(err)
	return true
}

// poll is one call of an agent, which begins to become what it is told.
func (w *world) poll(m *machine) {
	w.Helper()
	if m.silent {
		return
	}
	w.Lifecycle.Nodes.Seen(m.id)
	now, err := w.Lifecycle.Nodes.Polled(w.Context(), m.id, m.agent)
	w.must(err)
	if now.Wanted == nil || m.affected() || m.managed != api.ManagedByController {
		return
	}
	w.Agents.Told(m.id, *now.Wanted)
	w.told++
	if m.refused[now.Wanted.Version] {
		m.upgrade = api.AgentUpgrade{Reason: api.UpgradeRolledBack, Version: now.Wanted.Version, Message: "refused"}
		return
	}
	m.upgrade = api.AgentUpgrade{Reason: api.UpgradeDownloading, Version: now.Wanted.Version}
}

// step takes the machine on: to its new agent, and from probation to its end.
func (w *world) step(m *machine) {
	switch m.upgrade.Reason {
	case api.UpgradeDownloading:
		m.upgrade.Reason, m.upgrade.Message = api.UpgradeProbation, m.agent.Version
		m.agent.Version = m.upgrade.Version
	case api.UpgradeProbation:
		previous := m.upgrade.Message
		m.upgrade = api.AgentUpgrade{Reason: api.UpgradeUpToDate, Version: m.agent.Version}
		if m.agent.Version == bad {
			m.upgrade = api.AgentUpgrade{Reason: api.UpgradeRolledBack, Version: bad, Message: "it was started 2 times without becoming healthy"}
			m.agent.Version, m.refused[bad] = previous, true
		}
	}
}

// report sends what the machine is.
func (w *world) report(m *machine) {
	w.Helper()
	if m.silent {
		return
	}
	doc, digest, err := w.Lifecycle.Nodes.NodeConfig(w.Context(), m.id)
	w.must(err)
	upgrade := m.upgrade
	upgrade.ManagedBy = m.managed
	s := api.NodeStatus{Epoch: doc.Epoch, ObservedGeneration: doc.Generation, ObservedDigest: digest, AppliedGeneration: doc.Generation, AppliedDigest: digest,
		Facts: api.Facts{AgentVersion: m.agent.Version}, AgentUpgrade: &upgrade}
	status, reason := api.ConditionTrue, api.ReasonReady
	if m.broken {
		status, reason = api.ConditionFalse, api.ReasonNotReady
	}
	for _, each := range append([]string{api.ConditionReady}, doc.ConditionTypes()...) {
		s.Conditions = append(s.Conditions, api.Condition{Type: each, Status: status, Reason: reason, ObservedGeneration: doc.Generation, LastTransitionTime: w.Clock.Now()})
	}
	w.must(w.Lifecycle.Nodes.ReportStatus(w.Context(), m.id, s))
}

// call has every machine poll and report.
func (w *world) call() {
	w.Helper()
	for _, m := range w.machines {
		w.poll(m)
		w.report(m)
	}
}

func (w *world) sweep() {
	w.Helper()
	_, err := w.Agents.Sweep()
	w.must(err)
}

// round has every machine call, go on, and call again, and sweeps.
func (w *world) round() {
	w.Helper()
	w.call()
	for _, m := range w.machines {
		w.step(m)
	}
	w.call()
	w.sweep()
}

func (w *world) upgrade(version string) api.AgentRollout {
	w.Helper()
	r, err := w.Agents.Upgrade(w.Context(), version, "alice")
	w.must(err)
	return r
}

func (w *world) rollout() api.AgentRollout {
	w.Helper()
	r, err := w.Agents.Rollout(w.Context())
	w.must(err)
	return r
}

// offers are the offers on record, by node.
func (w *world) offers() map[string]store.AgentOffer {
	w.Helper()
	offers := map[string]store.AgentOffer{}
	w.must(w.Store.View(func(t *store.Tx) error {
		nodes, err := t.Nodes().All()
		for _, n := range nodes {
			if n.AgentOffer != nil {
				offers[n.ID] = *n.AgentOffer
			}
		}
		return err
	}))
	return offers
}

// inFlight are the numbers of the machines in flight.
func (w *world) inFlight() (numbers []int) {
	w.Helper()
	for _, f := range w.rollout().InFlight {
		numbers = append(numbers, slices.IndexFunc(w.machines, func(m *machine) bool { return m.id == f.NodeID }))
	}
	return numbers
}

func (w *world) count(state api.AgentState) (nodes int) {
	w.Helper()
	for _, c := range w.rollout().Nodes {
		if c.State == state {
			nodes += c.Nodes
		}
	}
	return nodes
}
