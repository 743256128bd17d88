package cases

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// A step's name in case.yaml, and what it does.
var steps = map[string]func(*run, context.Context, Step) error{
	"boot":             func(r *run, ctx context.Context, _ Step) error { return r.boot(ctx) },
	"reboot":           func(r *run, ctx context.Context, _ Step) error { return r.node.Reboot(ctx) },
	"power-cut":        func(r *run, ctx context.Context, _ Step) error { return r.node.PowerCut(ctx) },
	"stop":             func(r *run, ctx context.Context, _ Step) error { return r.node.Stop(ctx) },
	"start":            func(r *run, ctx context.Context, _ Step) error { return r.node.Start(ctx) },
	"stop-controller":  func(r *run, ctx context.Context, _ Step) error { return r.site.Stop() },
	"start-controller": func(r *run, ctx context.Context, _ Step) error { return r.site.Start(ctx) },
	"exec":             (*run).exec,
	"blank":            (*run).blank,
	"attach":           func(r *run, ctx context.Context, s Step) error { return r.node.Attach(ctx, r.disks[s.Disk]) },
	"detach":           func(r *run, ctx context.Context, s Step) error { return r.node.Detach(ctx, r.disks[s.Disk].VolumeID) },
	"reformat":         (*run).reformat,
	"adopt":            (*run).adopt,
	"second-run":       (*run).secondRun,
	"look":             func(*run, context.Context, Step) error { return nil },
}

func (r *run) steps() {
	for i, step := range r.c.Steps {
		do, ok := steps[step.Do]
		if !ok {
			r.t.Fatalf("step %d: no step is called %q", i+1, step.Do)
		}
		limit, err := step.limit()
		if err != nil {
			r.t.Fatalf("step %d: within: %v", i+1, err)
		}
		r.began = time.Now()
		ctx, cancel := context.WithTimeout(r.t.Context(), limit)
		err = do(r, ctx, step)
		if err == nil && step.Expect != nil {
			err = r.expect(ctx, *step.Expect)
		}
		cancel()
		if err != nil {
			r.t.Fatalf("step %d, %s: %v", i+1, step.Do, err)
		}
	}
}

func (r *run) exec(ctx context.Context, s Step) error {
	_, err := r.node.Exec(ctx, s.Run...)
	return err
}

// blank makes a disk as new, behind everyone's back.
func (r *run) blank(_ context.Context, s Step) error {
	path := r.disks[s.Disk].Path
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Truncate(path, 0); err != nil {
		return err
	}
	return os.Truncate(path, info.Size())
}

func (r *run) reformat(ctx context.Context, s Step) error {
	id := r.disks[s.Disk].VolumeID
	_, err := r.site.Hitchctl(ctx, "volume", "reformat", id, "--confirm", id)
	return err
}

// adopt takes over whatever UUID the disk's filesystem has.
func (r *run) adopt(ctx context.Context, s Step) error {
	disk := r.disks[s.Disk]
	uuid, err := r.node.Exec(ctx, "blkid", "-p", "-s", "UUID", "-o", "value", disk.Link())
	if err != nil {
		return err
	}
	_, err = r.site.Hitchctl(ctx, "volume", "adopt", disk.VolumeID, "--filesystem-uuid", strings.TrimSpace(string(uuid)))
	return err
}

// secondRun stops the daemon and converges once more by hand: the plan must be
// empty, and no file of the machine may have been written.
func (r *run) secondRun(ctx context.Context, _ Step) error {
	const document = "/var/lib/nodehitch/agent/last-known-good.json"
	if _, err := r.node.Exec(ctx, "systemctl", "stop", "nodehitch-agent"); err != nil {
		return err
	}
	if _, err := r.node.Exec(ctx, "touch", "/run/marker"); err != nil {
		return err
	}
	out, err := r.node.Exec(ctx, "nodehitch-agent", "apply", "--file", document, "-o", "json")
	if err != nil {
		return err
	}
	if err := quiet(out); err != nil {
		return err
	}
	written, err := r.node.Exec(ctx, "find", "/etc", "/usr", "/srv", "/var/lib/nodehitch", "/var/lib/nfs", "-newer", "/run/marker")
	if err != nil {
		return err
	}
	if len(written) > 0 {
		return fmt.Errorf("a second run wrote files:\n%s", written)
	}
	_, err = r.node.Exec(ctx, "systemctl", "start", "nodehitch-agent")
	return err
}
