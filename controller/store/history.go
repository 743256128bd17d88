package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/durable"
)

// History is what a controller has seen of a shared database, kept on its own disk. If the
// database is restored from a backup behind the controllers' back, it has forgotten who was
// revoked and which permits were used; that shows here. It is safe for concurrent use.
type History struct {
	path string

	mu   sync.Mutex
	last seen
	// unwritten is set while the disk has less than last.
	unwritten bool
	timer     *time.Timer
	failed    error
}

// seen is how far the database had come.
type seen struct {
	Cluster  string `json:"cluster"`
	Revision int64  `json:"revision"`
	head
}

// writeEvery is how much a crash may forget.
const writeEvery = time.Second

// OpenHistory reads the file, or begins a history if there is none.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, nil
	case err == nil:
		err = json.Unmarshal(content, &h.last)
	}
	if err != nil {
		return nil, fmt.Errorf("reading what this controller has seen of the database, %s: %w; remove the file only if the database was not restored from a backup", path, err)
	}
	return h, nil
}

// HistoryError says that a shared database has lost commits that this controller has seen.
type HistoryError struct{ seen, found seen }

// Error says what was found, what was expected and what to do.
func (e *HistoryError) Error() string {
	return fmt.Sprintf("its history went back: this controller has seen commit %d of epoch %d at revision %d of the cluster %s, and finds commit %d of epoch %d at revision %d of the cluster %s: "+
		"if it was restored from a backup, stop all controllers and run `nodehitch-controller restore --etcd-was-restored --config FILE` on one, which begins a new epoch; nothing has been changed",
		e.seen.Sequence, e.seen.Epoch, e.seen.Revision, e.seen.Cluster, e.found.Sequence, e.found.Epoch, e.found.Revision, e.found.Cluster)
}

// check refuses a database that is not what was seen, or what came after it. A new epoch is
// another state, and an operator began it.
func (h *History) check(found seen) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.last
	if last.Cluster == "" || found.Epoch > last.Epoch {
		return nil
	}
	if found.Epoch < last.Epoch || found.Sequence < last.Sequence || found.Revision < last.Revision || found.Cluster != last.Cluster ||
		found.Sequence == last.Sequence && string(found.MAC) != string(last.MAC) {
		return &HistoryError{seen: last, found: found}
	}
	return nil
}

// Seen notes how far the database has come: its cluster, its revision and the head of its
// last commit. The disk has it within a second. Something older is no news, and a head that
// is none is ignored: Open refuses it.
func (h *History) Seen(cluster string, revision int64, headText []byte) {
	now, err := parseHead(headText)
	if err != nil || headText == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.last
	if now.Epoch < last.Epoch || now.Epoch == last.Epoch && (now.Sequence <= last.Sequence || last.Cluster != "" && cluster != last.Cluster) {
		return
	}
	h.last, h.unwritten = seen{Cluster: cluster, Revision: revision, head: now}, true
	if h.timer == nil {
		h.timer = time.AfterFunc(writeEvery, func() { _ = h.flush() }) // writable tells of an error
	}
}

// flush writes what the disk does not have yet.
func (h *History) flush() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.write()
}

func (h *History) write() error {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	if !h.unwritten {
		return nil
	}
	content, err := json.Marshal(h.last)
	if err == nil {
		err = durable.Write(h.path, content, 0o600)
	}
	h.failed, h.unwritten = err, err != nil
	if err != nil {
		return fmt.Errorf("writing what this controller has seen of the database, %s: %w", h.path, err)
	}
	return nil
}

// writable tries again what the disk has refused. While that fails nothing may be changed:
// it would not be noticed if the change were lost.
func (h *History) writable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		return nil
	}
	if err := h.write(); err != nil {
		return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
			"the controller's disk takes no changes, so nothing of this request was kept: free or repair the disk under its data directory; the controller needs no restart"), err)
	}
	return nil
}
