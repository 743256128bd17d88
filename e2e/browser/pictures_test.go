package browser

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// mostPictures is how many bytes the pictures of the documentation have at most, in all.
const mostPictures = 1500 << 10

// The pictures of the documentation are of a real run: `make docs-pictures` writes them.
func TestPictures(t *testing.T) {
	folder := os.Getenv("NODEHITCH_PICTURES")
	if folder == "" {
		t.Skip("the pictures of the documentation are written by `make docs-pictures`, which names their folder in NODEHITCH_PICTURES")
	}
	w := &controller{t: t, Controller: loopback.Open(t, loopback.Options{Settings: map[string]string{"agentDirectory": loopback.Bin(t), "pollSeconds": "60"}})} // with less, machines are lost that the story does not need
	s := story{controller: w, cluster: "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e", other: "c4d2f7a0-33bb-4a52-a0c1-9e8f7d6c5b4a"}
	version, err := client.Read[api.Version](w.API.GetVersion(t.Context()))
	w.must(err)
	s.version = version.Version
	w.fleet(100)
	w.script(w.instances[0])
	for _, m := range w.machines {
		(&player{story: &s, machine: m, server: server{name: m.ServerID}}).report(nil, "")
	}
	s.otherStorage()
	operation := s.instantiate()

	viewer := w.Token("alice", api.ScopeViewer)
	b := open(t, w.Controller)
	b.signIn(viewer.Secret, "/ui/")
	for _, p := range []struct {
		name, path, scheme string
		width, height      int64
	}{
		{"ui-overview", "/ui/", "light", 1280, 1080},
		{"ui-operation", "/ui/operations/" + operation, "light", 1280, 1180},
		{"ui-node", "/ui/nodes/" + s.foreign, "dark", 1280, 900},
		{"ui-nodes", "/ui/nodes?text=worker&ready=False", "dark", 1280, 620},
		{"ui-narrow", "/ui/operations/" + operation, "light", 390, 844},
	} {
		s.picture(b, filepath.Join(folder, p.name+".png"), p.path, p.scheme, p.width, p.height)
	}
	s.terminal(filepath.Join(folder, "hitchctl-get-nodes.svg"), "get", "nodes", "--instance", s.cluster)
	s.terminal(filepath.Join(folder, "hitchctl-describe-operation.svg"), "describe", "operation", operation)

	written, err := filepath.Glob(filepath.Join(folder, "*"))
	w.must(err)
	total := int64(0)
	for _, file := range written {
		info, err := os.Stat(file)
		w.must(err)
		total += info.Size()
	}
	if total > mostPictures || len(written) != 7 {
		t.Errorf("%d pictures of %d bytes, expected 7 of at most %d", len(written), total, mostPictures)
	}
}

// story is what happens in the pictures.
type story struct {
	*controller
	cluster, other string
	// version is that of the controller and of its agents.
	version string
	// foreign is the server whose disk holds what nodehitch did not write.
	foreign string
}

// script uploads the file that the parameters name.
func (w *controller) script(instance string) {
	w.t.Helper()
	_, err := client.Read[api.PackageFile](w.API.PutFileWithBody(w.t.Context(), instance, "Scripts/install.sh", nil, "application/octet-stream", strings.NewReader("#!/bin/sh\n")))
	w.must(err)
}

// otherStorage is a storage server of another instance, on whose disk somebody else's data lie.
func (s *story) otherStorage() {
	s.foreign = "5b7a9c3d-0e1f-4a2b-8c3d-4e5f6a7b8c9d"
	volume := "9a0dbb52-1111-4000-8000-000000000001"
	topology := loopback.StorageTopology(s.foreign, volume, 100<<30)
	topology.Servers[0].Name = "archive_server"
	s.Put(s.other, topology)
	s.Operate(s.other, api.OperationRequest{Operation: api.Instantiate})
	m := s.machine(300)
	m.ServerID = s.foreign
	s.must(m.Enroll(s.t.Context(), s.JoinToken(s.other)))
	p := player{story: s, machine: m, done: map[string]bool{}}
	p.report(&api.Condition{Type: api.ConditionVolumesMounted, Status: api.ConditionFalse, Reason: api.ReasonForeignData,
		Message: "volume " + volume + ": /dev/disk/by-id/virtio-" + volume[:20] + " holds xfs with UUID 1f0c1b1e-5f0e-4a53-a7d6-0c6f5f1f6f52; expected a blank disk, or ext4 with UUID " + api.FilesystemUUID(volume)}, "")
}

// server is a machine of the cluster: its name, its connection point, and how long each of its steps takes.
type server struct {
	id, name, point, address string
	boot                     time.Duration
	steps                    []time.Duration
}

var servers = []server{
	{"4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1", "storage_server", "storage_server_CP", "10.10.0.5", 3 * time.Second, []time.Duration{7 * time.Second, 2 * time.Second}},
	{"9c1e77d0-1b52-4a36-8d7e-5f0a61b2c3d4", "master1", "master_CP", "10.10.0.11", 4 * time.Second, []time.Duration{5 * time.Second, 3 * time.Second}},
	{"e27f0f0c-58a4-4f0b-b1d9-0f9d6b7a8c11", "worker1", "worker_CP", "10.10.0.21", 5 * time.Second, []time.Duration{6 * time.Second, 4 * time.Second}},
	{"f83a1d27-90b5-4c1d-a2e4-6b1c0d9e8f22", "worker2", "worker_CP", "10.10.0.22", 6 * time.Second, []time.Duration{9 * time.Second}},
}

const volumeOfCluster = "7be1cf24-5d0a-4d8f-8f63-2a4f5c1e9b77"

// instantiate makes a cluster with one worker that does not get ready, and returns the operation's id.
func (s *story) instantiate() string {
	topology := &api.Topology{StackStatus: "CREATE_COMPLETE", Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volumeOfCluster, SizeBytes: 100 << 30}}}
	for _, of := range servers {
		server := api.Server{ID: of.id, Name: of.name, ConnectionPoints: []api.ConnectionPoint{{Name: of.point, Addresses: []string{of.address}}}}
		if of.name == "storage_server" {
			server.VolumeIds = []string{volumeOfCluster}
		}
		topology.Servers = append(topology.Servers, server)
	}
	params := loopback.StorageParams()
	loopback.ClusterOf(params)["private_registry_connection_info"] = []any{
		map[string]any{"connection_type": "0", "server": "192.168.0.10:5000"}, map[string]any{"connection_type": "1", "server": "registry.example.com"}}
	s.PutParams(s.cluster, params, topology)
	s.script(s.cluster)
	sequence := s.Operate(s.cluster, api.OperationRequest{Operation: api.Instantiate})
	join := s.JoinToken(s.cluster)
	var all sync.WaitGroup
	for i, of := range servers {
		m := s.machine(310 + i)
		m.ServerID = of.id
		all.Go(func() { (&player{story: s, machine: m, server: of, done: map[string]bool{}}).play(join) })
	}
	all.Wait()
	return api.OperationID(s.cluster, sequence)
}

// player is a machine that plays its part in real time.
type player struct {
	*story
	machine *loopback.Machine
	server  server
	done    map[string]bool
}

// lasts lets time pass that a machine would need: the pictures show how long steps took.
func (p *player) lasts(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.t.Context().Done():
	}
}

// play boots, enrolls and takes the steps of its document one after the other. One that has no time
// for a step stays there.
func (p *player) play(join string) {
	p.lasts(p.server.boot)
	p.check(p.machine.Enroll(p.t.Context(), join))
	p.lasts(time.Second)
	config, err := p.machine.Config(p.t.Context())
	p.check(err)
	for i, kind := range config.ConditionTypes() {
		if i >= len(p.server.steps) {
			p.report(&api.Condition{Type: kind, Status: api.ConditionFalse, Reason: api.ReasonUnreachable,
				Message: "registry.example.com: dial tcp 192.168.0.20:443: connect: no route to host; the other registries are connected"}, "")
			return
		}
		p.report(&api.Condition{Type: kind, Status: api.ConditionFalse, Reason: api.ReasonConverging}, "working on "+kind)
		if kind == api.ConditionVolumesMounted {
			p.format()
		}
		p.lasts(p.server.steps[i])
		p.done[kind] = true
	}
	p.done[api.ConditionReady] = true
	p.report(nil, "")
}

// check fails the test, also from a player's own goroutine.
func (p *player) check(err error) {
	if err != nil {
		p.t.Errorf("%s: %v", p.server.name, err)
	}
}

// format asks for the permit to format the volume, and uses it.
func (p *player) format() {
	report := api.FormatReport{Phase: api.FormatWanted, SizeBytes: 100 << 30, FilesystemUUID: api.FilesystemUUID(volumeOfCluster),
		BlankCheck: &api.BlankCheck{BytesRead: 64 << 20, Samples: 1024}}
	permit, err := p.machine.Format(p.t.Context(), volumeOfCluster, report)
	p.check(err)
	if err != nil {
		return
	}
	report.Permit = permit.Permit
	for _, report.Phase = range []api.FormatPhase{api.FormatStarted, api.FormatFormatted} {
		_, err = p.machine.Format(p.t.Context(), volumeOfCluster, report)
		p.check(err)
		p.lasts(time.Second)
	}
}

// reasons are what the conditions say that are True.
var reasons = map[string]api.Reason{api.ConditionVolumesMounted: api.ReasonMounted, api.ConditionExportsServed: api.ReasonServed,
	api.ConditionNFSClientInstalled: api.ReasonInstalled, api.ConditionRegistriesConnected: api.ReasonConnected, api.ConditionReady: api.ReasonReady}

// report says which conditions are done, and which one is not and why.
func (p *player) report(not *api.Condition, doing string) {
	config, err := p.machine.Config(p.t.Context())
	p.check(err)
	if err != nil {
		return
	}
	s := loopback.Converged(*config)
	s.Facts = api.Facts{Hostname: p.server.name, AgentVersion: p.version, Architecture: "amd64", KernelVersion: "6.1.0-28-cloud-amd64", OSImage: "Debian GNU/Linux 12 (bookworm)"}
	s.AgentUpgrade = &api.AgentUpgrade{ManagedBy: api.ManagedByController, Reason: api.UpgradeUpToDate, Version: p.version}
	if not != nil {
		s.AppliedGeneration, s.AppliedDigest = 0, ""
		if doing != "" {
			s.Activity = &api.Activity{Condition: not.Type, Summary: doing, StartedAt: time.Now()}
		}
	}
	var conditions []api.Condition
	for _, c := range s.Conditions {
		switch {
		case not != nil && c.Type == not.Type:
			c.Status, c.Reason, c.Message = not.Status, not.Reason, not.Message
		case c.Type == api.ConditionReady && not != nil:
			c.Status, c.Reason, c.Message = api.ConditionFalse, api.ReasonNotReady, not.Type+" is not True"
		case p.done[c.Type] || not == nil:
			c.Reason = reasons[c.Type]
		default:
			continue // not yet
		}
		conditions = append(conditions, c)
	}
	s.Conditions = append(conditions[1:], conditions[0]) // Ready is the last one, as agents report it
	p.check(p.machine.Report(context.WithoutCancel(p.t.Context()), s))
}

// picture writes a screenshot of a page that is live.
func (s *story) picture(b *tab, file, path, scheme string, width, height int64) {
	s.t.Helper()
	b.run(protocol(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}),
		protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
	b.visit(path)
	b.untilConnected()
	shot, err := do(b, func(ctx context.Context, t *chromedp.Target) (page.CaptureScreenshotResult, error) {
		return chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	})
	s.must(err)
	small, err := fewerColours(shot.Data)
	s.must(err)
	s.must(os.WriteFile(file, small, 0o644))
}

// terminal writes what hitchctl prints on a terminal, as a picture.
func (s *story) terminal(file string, arguments ...string) {
	s.t.Helper()
	const columns = 118
	output, err := s.onTerminal(columns, arguments...)
	s.must(err)
	picture := drawTerminal(columns, "hitchctl "+strings.Join(arguments, " "), output)
	s.must(os.WriteFile(file, []byte(picture), 0o644))
}
