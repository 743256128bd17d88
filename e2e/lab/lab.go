package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// DefaultDir holds the state of every running lab, one folder each. All runs
// of a host should share it: Open finds there what a dead run left behind.
const DefaultDir = "/var/tmp/nodehitch-lab"

// Options of a lab. The zero value is good for tests.
type Options struct {
	// Dir is the folder that holds the state folders of the labs; empty means DefaultDir.
	// It must not lie on an overlay file system.
	Dir string
	// Cache holds the images; empty means $NODEHITCH_CACHE or image.DefaultCache.
	Cache string
	// Log receives progress, one line per call; nil means no log.
	Log func(format string, args ...any)
}

// Lab is a set of machines with a network of their own. Its methods may be
// called from several goroutines, so that machines start side by side.
type Lab struct {
	id     string
	dir    string
	lock   *os.File
	cache  *image.Cache
	log    func(format string, args ...any)
	ledger *ledger

	mu     sync.Mutex
	closed bool
	taken  map[netip.Addr]string // address → name of the node that has it
}

// Open makes an empty lab: a state folder, a network namespace with a bridge
// at Gateway, and nothing else; images are built when the first machine needs
// them. First it sweeps what runs of dead processes left in Options.Dir.
func Open(ctx context.Context, o Options) (*Lab, error) {
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	cache, err := image.OpenCache(o.Cache, o.Log)
	if err != nil {
		return nil, err
	}
	l := &Lab{
		cache: cache,
		log:   o.Log,
		taken: map[netip.Addr]string{Gateway: "the lab itself"},
	}
	if err := l.claimDir(o.Dir); err != nil {
		return nil, errors.Join(err, cache.Close())
	}
	if err := errors.Join(allowInotify(), l.openNetwork(ctx)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// claimDir sweeps dead runs and makes this run's folder, locked for as long as
// this process lives. One lock over the parent keeps a second Open from
// taking a folder that is not locked yet for a dead one.
func (l *Lab) claimDir(parent string) error {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("making the lab's state folder: %w", err)
	}
	gate, err := lockFile(filepath.Join(parent, "sweep.lock"), syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer gate.Close()
	sweep(parent, l.log)

	l.id = newID()
	l.dir = filepath.Join(parent, l.id)
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		return fmt.Errorf("making the lab's state folder: %w", err)
	}
	if l.lock, err = lockFile(filepath.Join(l.dir, lockName), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	l.ledger, err = newLedger(l.dir)
	return err
}

// BuildImages builds what machines of these kinds (none named means all) start
// from, as far as it is not in the cache yet, so that no test has to wait for it: for the
// system of machines whose Spec names none.
func (l *Lab) BuildImages(ctx context.Context, kinds ...Kind) error {
	s, err := System("").OrDefault()
	if err != nil {
		return err
	}
	if len(kinds) == 0 || slices.Contains(kinds, KindNspawn) {
		if _, err := l.cache.Nspawn(ctx, s); err != nil {
			return err
		}
	}
	if len(kinds) == 0 {
		if err := l.BuildEngines(ctx); err != nil {
			return err
		}
	}
	if len(kinds) > 0 && !slices.Contains(kinds, KindVM) {
		return nil
	}
	img, err := l.cache.VM(ctx, s)
	if err != nil {
		return err
	}
	_, err = l.frozen(ctx, img, accelerate(ctx, img, l.log))
	return err
}

// Close takes away everything that the lab put on the host: processes
// (also commands of Command that still run), mounts, loop devices, control
// groups, the network namespace, the state folder. It does not need a live
// context and may be called again; a second call finishes what the first could not.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if err := l.ledger.undo(); err != nil {
		return fmt.Errorf("closing lab %s: %w", l.id, err)
	}
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("closing lab %s: %w", l.id, err)
	}
	if l.lock != nil {
		l.lock.Close()
	}
	return l.cache.Close()
}

// Dir is the lab's own state folder, gone after Close.
func (l *Lab) Dir() string { return l.dir }

// machine is a node's name that is unique on the host: systemd-nspawn keeps
// files by it, and ps shows it.
func (l *Lab) machine(node string) string { return "nodehitch-" + l.id + "-" + node }

// admit checks a spec, gives it an address, and makes the node's folder.
func (l *Lab) admit(s Spec) (Spec, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return s, "", errors.New("the lab is closed")
	}
	s, err := s.complete(l.taken)
	if err != nil {
		return s, "", err
	}
	dir := filepath.Join(l.dir, s.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return s, "", fmt.Errorf("node %s: %w", s.Name, err)
	}
	l.taken[s.Address] = s.Name
	return s, dir, nil
}

// release forgets a node that is gone; its address is free again.
func (l *Lab) release(s Spec, dir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, s.Address)
	return os.RemoveAll(dir)
}

func newID() string {
	b := make([]byte, 4)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// within gives a context without a deadline one, so that no wait is endless.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
