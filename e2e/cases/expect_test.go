package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// expect observes again and again until everything is as expected. When the time is over
// its error says what was not.
func (r *run) expect(ctx context.Context, e Expect) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		err := r.observe(ctx, e)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not as expected within the time: %w", err)
		case <-tick.C:
		}
	}
}

func (r *run) observe(ctx context.Context, e Expect) error {
	// Each observation needs a little time of its own, also when the step's is nearly over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, observe := range []func(context.Context, Expect) error{r.conditions, r.permitted, r.mounts, r.exports, r.files, r.unchanged, r.journals, r.withheld, r.active, r.refused} {
		if err := observe(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) conditions(ctx context.Context, e Expect) error {
	if len(e.Conditions)+len(e.Message)+len(e.Messages) == 0 {
		return nil
	}
	node, err := r.seen(ctx)
	if err != nil {
		return err
	}
	for name, want := range e.Conditions {
		c := node.Status.Condition(name)
		if c == nil {
			return fmt.Errorf("%s is not reported, expected %s", name, want)
		}
		got := fmt.Sprintf("%s %s", c.Status, c.Reason)
		if got != want {
			return fmt.Errorf("%s is %q (%s), expected %q", name, got, c.Message, want)
		}
		if c.ObservedGeneration != node.Generation {
			return fmt.Errorf("%s is %q for generation %d of the document, expected for %d", name, got, c.ObservedGeneration, node.Generation)
		}
	}
	for name, text := range e.Message {
		if err := r.says(node, name, text); err != nil {
			return err
		}
	}
	for name, texts := range e.Messages {
		if err := r.says(node, name, texts...); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) says(node api.Node, condition string, texts ...string) error {
	for _, text := range texts {
		c := node.Status.Condition(condition)
		if text = r.spell(text); c == nil || !strings.Contains(c.Message, text) {
			return fmt.Errorf("the message of %s is %+v, expected it to contain %q", condition, c, text)
		}
	}
	return nil
}

func (r *run) permitted(ctx context.Context, e Expect) error {
	for name, want := range e.Permit {
		var v api.Volume
		if err := r.site.JSON(ctx, &v, "get", "volume", r.disks[name].VolumeID); err != nil {
			return err
		}
		if string(v.PermitState) != want {
			return fmt.Errorf("the permit of %s is %s, expected %s", name, v.PermitState, want)
		}
	}
	return nil
}

func (r *run) mounts(ctx context.Context, e Expect) error {
	for _, d := range r.c.Disks {
		want, asked := e.Mounted[d.Name]
		if !asked {
			continue
		}
		out, _ := r.node.Exec(ctx, "findmnt", "-n", "-o", "UUID", "--mountpoint", d.MountTo)
		mounted := strings.TrimSpace(string(out)) != ""
		if mounted != want {
			return fmt.Errorf("%s mounted at %s: %v, expected %v", d.Name, d.MountTo, mounted, want)
		}
	}
	return nil
}

// exports compares the directories that are exported.
func (r *run) exports(ctx context.Context, e Expect) error {
	if e.Exported == nil {
		return nil
	}
	out, err := r.exportTable(ctx)
	if err != nil {
		return err
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if dir, _, ok := strings.Cut(line, " "); ok && strings.HasPrefix(dir, "/") {
			got = append(got, dir)
		}
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(e.Exported))
	if !slices.Equal(got, want) {
		return fmt.Errorf("exported %v, expected %v", got, want)
	}
	return nil
}

// exportTable is the kernel's, or what would be in it.
func (r *run) exportTable(ctx context.Context) ([]byte, error) {
	if r.c.Machine != lab.KindNspawn {
		return r.node.Exec(ctx, "exportfs", "-s")
	}
	out, err := r.node.Pull(ctx, "/etc/exports.d/nodehitch.exports")
	if missing := (*lab.ExecError)(nil); errors.As(err, &missing) {
		return nil, nil
	}
	return out, err
}

func (r *run) files(ctx context.Context, e Expect) error {
	for path, want := range e.Files {
		got, err := r.node.Pull(ctx, path)
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s holds %q, expected %q", path, got, want)
		}
	}
	return nil
}

func (r *run) unchanged(ctx context.Context, e Expect) error {
	for _, name := range e.Unchanged {
		switch n, err := r.changedBytes(ctx, name); {
		case err != nil:
			return err
		case n > 0:
			return fmt.Errorf("%d bytes of %s have changed", n, name)
		}
	}
	return nil
}

// quiet reads the report of a convergence that must have had nothing to do. What
// it reads has to be there: a report of another shape shows nothing.
func quiet(report []byte) error {
	var r struct {
		Converged bool
		Steps     []struct {
			Condition string
			Planned   *[]string
		}
		Changes map[string]int64
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return fmt.Errorf("reading the report: %w: %s", err, report)
	}
	quiet := r.Converged && len(r.Steps) > 0 && len(r.Changes) > 0
	for _, step := range r.Steps {
		quiet = quiet && step.Planned != nil && len(*step.Planned) == 0
	}
	for _, count := range r.Changes {
		quiet = quiet && count == 0
	}
	if !quiet {
		return fmt.Errorf("a second run had something to do, or does not say that it had not: %s", report)
	}
	return nil
}
