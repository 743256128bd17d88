package cases

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// keepCopy notes what a disk holds, before the first step.
func (r *run) keepCopy(name string) error {
	path := filepath.Join(r.t.TempDir(), name)
	r.before[name] = path
	return r.disks[name].Snapshot(r.t.Context(), path)
}

// changedBytes is how many bytes of a disk differ from before the first
// step, on the medium and in the cache of the machine that has it.
func (r *run) changedBytes(ctx context.Context, name string) (int64, error) {
	disk := r.disks[name]
	if r.node != nil {
		// Fails if the machine is off or the disk is not in it: then nothing of it
		// is in the machine's cache.
		_, _ = r.node.Exec(ctx, "sync", disk.Link())
	}
	return differences(disk.Path, r.before[name])
}

// differences counts the bytes in which two files differ, those that only one of
// them has too.
func differences(a, b string) (int64, error) {
	fa, errA := os.Open(a)
	fb, errB := os.Open(b)
	if err := errors.Join(errA, errB); err != nil {
		return 0, err
	}
	defer fa.Close()
	defer fb.Close()
	var count int64
	here, there := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(fa, here)
		m, errB := io.ReadFull(fb, there)
		count += results.Differing(here[:n], there[:m])
		if errA == nil && errB == nil {
			continue
		}
		for _, err := range []error{errA, errB} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return 0, err
			}
		}
		if n == 0 && m == 0 {
			return count, nil
		}
	}
}

// A comparison that could not fail would show that nothing is ever lost.
func TestDifferences(t *testing.T) {
	disk := make([]byte, 3<<20)
	changed := bytes.Clone(disk)
	changed[0], changed[1<<20], changed[len(changed)-1] = 1, 2, 3
	for name, c := range map[string]struct {
		now  []byte
		want int64
	}{
		"as it was":     {disk, 0},
		"three changed": {changed, 3},
		"cut":           {disk[:2<<20], 1 << 20},
		"longer":        {append(bytes.Clone(disk), 0), 1},
	} {
		dir := t.TempDir()
		for file, content := range map[string][]byte{"before": disk, "now": c.now} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := differences(filepath.Join(dir, "now"), filepath.Join(dir, "before"))
		if err != nil || got != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", name, got, err, c.want)
		}
	}
}

// tally records how many bytes are lost of what a step expects. It runs when the step is
// over: before that, a volume may not be mounted yet.
func (r *run) tally(ctx context.Context, e *Expect) {
	if e == nil || len(e.Unchanged)+len(e.Files) == 0 {
		return
	}
	ctx = context.WithoutCancel(ctx)
	r.record.Lost(0)
	for _, name := range e.Unchanged {
		n, err := r.changedBytes(ctx, name)
		if err != nil {
			r.t.Errorf("comparing %s with its copy: %v", name, err)
		}
		r.record.Lost(n)
	}
	for path, want := range e.Files {
		if got, err := r.node.Pull(ctx, path); err != nil || string(got) != want {
			r.record.Lost(max(1, results.Differing(got, []byte(want))))
		}
	}
}
