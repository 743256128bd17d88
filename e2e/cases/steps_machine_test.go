package cases

import (
	"context"
	"fmt"
)

// What happens to the machine and to the controller.
var _ = add(map[string]stepFunc{
	"boot":             func(r *run, ctx context.Context, _ Step) error { return r.boot(ctx) },
	"reboot":           func(r *run, ctx context.Context, _ Step) error { return r.node.Reboot(ctx) },
	"power-cut":        func(r *run, ctx context.Context, _ Step) error { return r.node.PowerCut(ctx) },
	"stop":             func(r *run, ctx context.Context, _ Step) error { return r.node.Stop(ctx) },
	"start":            func(r *run, ctx context.Context, _ Step) error { return r.node.Start(ctx) },
	"stop-controller":  func(r *run, ctx context.Context, _ Step) error { return r.site.Stop() },
	"start-controller": func(r *run, ctx context.Context, _ Step) error { return r.site.Start(ctx) },
	"exec":             (*run).exec,
	"second-run":       (*run).secondRun,
})

func (r *run) exec(ctx context.Context, s Step) error {
	argv := make([]string, len(s.Run))
	for i, word := range s.Run {
		argv[i] = r.spell(word)
	}
	_, err := r.node.Exec(ctx, argv...)
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
	out, err := r.node.Exec(ctx, "nodehitch-agent", "apply", "--filename", document, "-o", "json")
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
