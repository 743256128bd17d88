package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

const (
	ledgerName = "ledger.json"
	lockName   = "lock"
)

// entry is one thing that the lab has put on the host and must take away.
type entry struct {
	Kind kind `json:"kind"`
	// Name is a path, a device or a namespace; for a process, its command.
	Name string `json:"name"`
	// Owner is the node that it belongs to; empty for what is the lab's.
	Owner string `json:"owner,omitempty"`
	// Process, for kind process: which one to end, and how.
	Process process        `json:"process,omitzero"`
	Signal  syscall.Signal `json:"signal,omitempty"`
	// Backing, for kind loop: the file that must still be behind the device.
	Backing string `json:"backing,omitempty"`
}

type kind string

const (
	kindProcess kind = "process"
	kindMount   kind = "mount"
	kindLoop    kind = "loop"
	kindCgroup  kind = "cgroup"
	kindNetns   kind = "netns"
	kindFile    kind = "file" // what systemd-nspawn forgets when it is killed
)

// ledger is the list, on disk, of the lab's entries in the order in which they
// were made. Things with a name of our choosing are written down before they
// are made, so that a crash in between leaves nothing unknown.
type ledger struct {
	path string
	boot string // entries of another boot of the host are gone with it

	mu      sync.Mutex
	closed  bool
	entries []entry
}

type ledgerFile struct {
	Boot    string  `json:"boot"`
	Entries []entry `json:"entries"`
}

var errLedgerClosed = errors.New("the lab is closing")

func newLedger(dir string) (*ledger, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	l := &ledger{path: filepath.Join(dir, ledgerName), boot: boot}
	return l, l.save()
}

// loadLedger reads a dead run's ledger. Without a file there was nothing yet.
func loadLedger(dir string) (*ledger, error) {
	l := &ledger{path: filepath.Join(dir, ledgerName)}
	data, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	var f ledgerFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", l.path, err)
	}
	l.boot, l.entries = f.Boot, f.Entries
	return l, nil
}

// make writes e down and then makes it, in one step as seen by undo: what
// comes after undo has begun is refused and never made. An entry that is made
// again at every boot of its node is listed once.
func (l *ledger) make(e entry, create func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errLedgerClosed
	}
	if !slices.Contains(l.entries, e) {
		l.entries = append(l.entries, e)
		if err := l.save(); err != nil {
			return err
		}
	}
	return create()
}

// found writes down a thing whose name the kernel chose: find makes it and says
// what it is.
func (l *ledger) found(find func() (entry, error)) (entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return entry{}, errLedgerClosed
	}
	e, err := find()
	if err != nil {
		return entry{}, err
	}
	l.entries = append(l.entries, e)
	return e, l.save()
}

// start runs cmd for a node; at the end its process gets sig, and SIGKILL if
// that does not help.
func (l *ledger) start(cmd *exec.Cmd, owner string, sig syscall.Signal) error {
	_, err := l.found(func() (entry, error) {
		if err := cmd.Start(); err != nil {
			return entry{}, err
		}
		return processEntry(cmd.Process.Pid, owner, sig)
	})
	return err
}

func processEntry(pid int, owner string, sig syscall.Signal) (entry, error) {
	p, err := identify(pid)
	return entry{Kind: kindProcess, Name: comm(pid), Owner: owner, Process: p, Signal: sig}, err
}

// forgetProcesses removes processes from the list that have ended.
func (l *ledger) forgetProcesses(pids ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return // undo removes them, and the folder may be gone
	}
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool {
		return e.Kind == kindProcess && slices.Contains(pids, e.Process.PID) && !e.Process.alive()
	})
	_ = l.save() // it does no harm on the list
}

// drop takes away the entries that match, the newest first, and forgets them.
func (l *ledger) drop(match func(entry) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropLocked(match)
}

// dropNode takes away what belongs to a node, also what it got after its start. Its
// processes go first, because they hold the rest.
func (l *ledger) dropNode(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.dropLocked(func(e entry) bool { return e.Owner == name && e.Kind == kindProcess }); err != nil {
		return err
	}
	return l.dropLocked(func(e entry) bool { return e.Owner == name })
}

func (l *ledger) dropLocked(match func(entry) bool) error {
	var kept []entry
	var errs []error
	for _, e := range slices.Backward(l.entries) {
		if match(e) {
			err := e.undo()
			if err == nil {
				continue
			}
			errs = append(errs, err)
		}
		kept = append(kept, e)
	}
	slices.Reverse(kept)
	l.entries = kept
	return errors.Join(append(errs, l.save())...)
}

// undo takes everything away: processes first, because they hold the rest, then what is
// left in reverse order. What it could not remove stays listed.
func (l *ledger) undo() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if boot, err := bootID(); err != nil || boot != l.boot {
		l.entries = nil // the host was restarted: only files are left
		return err
	}
	if err := l.dropLocked(func(e entry) bool { return e.Kind == kindProcess }); err != nil {
		return err
	}
	for _, e := range l.entries {
		if e.Kind == kindNetns {
			if err := endMembers(e.Name); err != nil {
				return err
			}
		}
	}
	return l.dropLocked(func(entry) bool { return true })
}

// save replaces the file in one step. Called with mu held.
func (l *ledger) save() error {
	data, err := json.MarshalIndent(ledgerFile{l.boot, l.entries}, "", "  ")
	if err != nil {
		return err
	}
	if l.closed && !exists(filepath.Dir(l.path)) {
		return nil // the folder went with a first Close
	}
	if err := os.WriteFile(l.path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(l.path+".new", l.path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
