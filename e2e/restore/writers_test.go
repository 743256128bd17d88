package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const writers = 50

// parts is all that a controller says of one instance, each thing as one text: the
// instance with its parameters, its package file with its content, its operations,
// its node.
type parts map[string]string

// life is what one instance goes through. states[n] is what the controller said after
// the n-th step, begun is how many steps were asked for.
type life struct {
	id, server, volume string
	states             []parts
	begun              int
}

// ledger is what the controller has acknowledged.
type ledger struct {
	mu    sync.Mutex
	lives []*life
	// whole counts the lives that have taken all steps and stay.
	whole int
}

func (l *ledger) born() *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &life{id: uuid.NewString(), server: uuid.NewString(), volume: uuid.NewString(), states: []parts{{}}}
	l.lives = append(l.lives, one)
	return one
}

func (l *ledger) begins(one *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.begun++
}

func (l *ledger) acknowledges(one *life, state parts, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.states = append(one.states, state)
	if last {
		l.whole++
	}
}

// counts is by life how many steps were acknowledged, and how many begun.
func (l *ledger) counts() (acknowledged, begun []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.lives {
		acknowledged, begun = append(acknowledged, len(one.states)-1), append(begun, one.begun)
	}
	return acknowledged, begun
}

// taken is a backup, with the steps of each life that it must hold, and may hold.
type taken struct {
	file      string
	must, may []int
}

// Writers take instances through all steps, and delete every third of them, so that its
// content is collected.
func TestBackupWhileFiftyWrite(t *testing.T) {
	w := begin(t, "backup under load", "backups while 50 clients write have everything acknowledged before they began, byte for byte, and no incomplete step")
	l := &ledger{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { w.write(ctx, l, i) })
	}
	var backups []taken
	for i := range 3 {
		loopback.Until(t, "the writers are writing", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return t.Failed() || l.whole >= 20*(i+1) })
		var b taken
		b.must, _ = l.counts()
		b.file = w.backup()
		_, b.may = l.counts()
		backups = append(backups, b)
	}
	stop()
	group.Wait()
	if t.Failed() {
		return // a writer has stopped in the middle of a step
	}
	w.c.Figure("writers", "%d, which finished %d instances", writers, l.whole)
	for i, b := range backups {
		w.holds(fmt.Sprintf("backup %d", i+1), b, l)
	}
}

// write takes one instance after another through all steps until ctx ends, and waits for
// the answer of each step. from is the number of its first instance.
func (w *controller) write(ctx context.Context, l *ledger, from int) {
	for n := from; ; n++ {
		one := l.born()
		steps := w.steps(one, n%3 == 2)
		for i, s := range steps {
			if ctx.Err() != nil {
				return
			}
			l.begins(one)
			err := s.do()
			var now parts
			if err == nil {
				now, err = w.read(one)
			}
			if err == nil && !now.contain(s.has) {
				err = fmt.Errorf("the controller says %q, and not %q", now, s.has)
			}
			if err != nil {
				w.t.Errorf("step %d of an instance: %v", i+1, err)
				return
			}
			l.acknowledges(one, now, i == len(steps)-1 && len(now) > 0)
		}
	}
}

// step is a request, and the words that show its effect afterwards.
type step struct {
	do  func() error
	has string
}

func (w *controller) steps(one *life, short bool) []step {
	ctx := w.t.Context()
	put := func(to string) step {
		return step{func() error {
			return client.Done(w.API.PutInstance(ctx, one.id, nil, api.InstanceSpec{AdditionalParams: fmt.Appendf(nil, parameters, to)}))
		}, to}
	}
	upload := func(name string) step {
		content := "#!/bin/sh\n# " + name + " of " + one.id + "\n"
		return step{func() error {
			return client.Done(w.API.PutFileWithBody(ctx, one.id, script, nil, "application/octet-stream", strings.NewReader(content)))
		}, content}
	}
	steps := []step{put("10.10.0.0/24"), upload("the first"), upload("the second"), put("10.20.0.0/24")}
	if short {
		return append(steps, step{func() error { return client.Done(w.API.DeleteInstance(ctx, one.id, nil)) }, ""})
	}
	m := &machine{w: w, Machine: w.Machine(one.server)}
	return append(steps, step{func() error {
		return client.Done(w.API.PostOperation(ctx, one.id, nil, api.OperationRequest{Operation: api.Instantiate, Partial: true, IdempotencyKey: one.id,
			Topology: loopback.StorageTopology(one.server, one.volume, size)}))
	}, `"state":"PROCESSING"`}, step{func() error {
		token, err := client.Read[api.JoinToken](w.API.GetJoinToken(ctx, one.id))
		if err != nil {
			return err
		}
		m.token = token.Token
		return m.enroll()
	}, `"certificateSerial"`}, step{m.converged, `"state":"COMPLETED"`})
}

const (
	script     = "Scripts/install.sh"
	parameters = `{"k8s_cluster_installation_param": {"script_path": "` + script + `",
  "master_node": {"ssh_cp_name": "master_CP", "nic_cp_name": "master_CP", "cluster_cp_name": "master_CP"},
  "worker_node": {"ssh_cp_name": "worker_CP", "nic_cp_name": "worker_CP"},
  "storage_server": {"ssh_cp_name": "storage_server_CP",
    "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
    "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": %q}]}}}`
)

// read reads everything of the instance except what a clock, a validation in the
// background or a restore changes.
func (w *controller) read(one *life) (parts, error) {
	ctx, found := w.t.Context(), parts{}
	instance, err := client.Read[api.Instance](w.API.GetInstance(ctx, one.id, nil))
	if instance != nil {
		for _, f := range instance.Files {
			found["record of "+f.Path] = fmt.Sprintf("%s, %d bytes", f.Sha256, f.SizeBytes)
		}
		instance.Files, instance.Warnings, instance.Unconfirmed, instance.Restored = nil, nil, false, nil
	}
	operations, listErr := client.Read[api.OperationList](w.API.ListInstanceOperations(ctx, one.id, nil))
	if operations != nil {
		for _, o := range operations.Items {
			if o.State == api.Processing { // what it still waits for is told of the present documents
				o.Targets = nil
			}
			found.note("operation "+o.ID, o)
		}
	}
	node, nodeErr := client.Read[api.Node](w.API.GetNode(ctx, one.server, nil))
	if node != nil {
		node.State, node.Ready, node.LastSeenAt, node.Unconfirmed = "", false, nil, false
		node.Generation, node.Digest = 0, "" // a new epoch is in every document
		if node.Status != nil {
			node.Status.Activity = nil
		}
		found.note("node", node)
	}
	if instance != nil {
		found.note("instance", instance)
	}
	content, fileErr := w.content(one.id)
	if fileErr == nil {
		found["content of "+script] = content
	}
	for _, err := range []error{err, listErr, nodeErr, fileErr} {
		if err != nil && client.Status(err) != http.StatusNotFound {
			return nil, err
		}
	}
	return found, nil
}

// contain says whether one of them has the words.
func (p parts) contain(words string) bool {
	for _, text := range p {
		if strings.Contains(text, words) {
			return true
		}
	}
	return words == "" && len(p) == 0
}

func (p parts) note(name string, thing any) {
	text, err := json.Marshal(thing)
	if err != nil {
		panic(err) // it has just been decoded
	}
	p[name] = string(text)
}

// missing is how many bytes of these differ there.
func (p parts) missing(there parts) (bytes int64) {
	for name, text := range p {
		if there[name] != text {
			bytes += int64(len(text))
		}
	}
	return bytes
}

// holds restores the backup on a machine of its own and compares each instance, whole,
// with what the controller said of it after one of the steps that the backup must or
// may hold.
func (w *controller) holds(name string, b taken, l *ledger) {
	w.t.Helper()
	there := w.elsewhere(b.file)
	seen := map[string]int{}
	for i, steps := range b.may {
		one := l.lives[i]
		must := 0
		if i < len(b.must) {
			must = b.must[i]
		}
		got, err := there.read(one)
		w.must(err)
		lost := one.states[must].missing(got)
		whole := false
		for _, state := range one.states[must : steps+1] {
			lost = min(lost, state.missing(got))
			whole = whole || maps.Equal(state, got)
		}
		w.c.Lost(lost)
		if !whole {
			w.t.Errorf("%s: instance %s is in none of its states after the steps %d (acknowledged) to %d (begun) (-acknowledged +restored):\n%s",
				name, one.id, must, steps, cmp.Diff(one.states[must], got))
		}
		for part := range one.states[must] {
			kind, _, _ := strings.Cut(part, " ")
			seen[kind]++
		}
	}
	for _, kind := range []string{"instance", "record", "content", "operation", "node"} {
		if seen[kind] < 20 {
			w.t.Errorf("%s was taken when %d things of the kind %q were acknowledged: too few to tell", name, seen[kind], kind)
		}
	}
	w.c.Figure(name, "compared with what was acknowledged before it: %d instances, %d package files, %d operations and %d nodes",
		seen["instance"], seen["content"], seen["operation"], seen["node"])
}

// elsewhere restores the backup on a machine of its own, with the key and the CA of
// this one.
func (w *controller) elsewhere(file string) *controller {
	w.t.Helper()
	there := &controller{Controller: loopback.Open(w.t, loopback.Options{}), t: w.t, c: w.c}
	there.End(syscall.SIGTERM)
	w.must(os.RemoveAll(there.Data()))
	w.must(os.MkdirAll(there.Data(), 0o700))
	w.must(os.CopyFS(filepath.Join(there.Data(), "pki"), os.DirFS(filepath.Join(w.Data(), "pki"))))
	key, err := os.ReadFile(filepath.Join(w.Data(), "seal.key"))
	w.must(err)
	w.must(os.WriteFile(filepath.Join(there.Data(), "seal.key"), key, 0o600))
	w.must(filepath.WalkDir(there.Data(), private))
	if out, err := there.restore(file); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	there.Start()
	return there
}

func private(path string, d os.DirEntry, err error) error {
	if err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if d.IsDir() {
		mode = 0o700
	}
	return os.Chmod(path, mode)
}
