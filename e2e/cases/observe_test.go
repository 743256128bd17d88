package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/api"
)

// seen is the machine as the controller sees it or, while the machine cannot reach it, as
// the machine's own status says.
func (r *run) seen(ctx context.Context) (node api.Node, err error) {
	if r.cutOff || !r.site.Running() {
		return r.seenOnMachine(ctx)
	}
	if err := r.site.JSON(ctx, &node, "get", "node", r.storage.Server.ID); err != nil {
		return node, err
	}
	if node.LastSeenAt == nil || node.LastSeenAt.Before(r.began) {
		return node, errors.New("the controller has not heard of the agent since the step began")
	}
	return node, nil
}

// machineStatus is what the machine says of itself.
type machineStatus struct {
	Node       api.NodeStatus
	Controller struct{ LastError string }
}

func (r *run) ownStatus(ctx context.Context) (status machineStatus, err error) {
	out, err := r.node.Exec(ctx, "nodehitch-agent", "status", "-o", "json")
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return status, fmt.Errorf("reading the status of the machine: %w", err)
	}
	return status, nil
}

func (r *run) refused(ctx context.Context, e Expect) error {
	if e.Refused == "" {
		return nil
	}
	status, err := r.ownStatus(ctx)
	if err == nil && !strings.Contains(status.Controller.LastError, e.Refused) {
		err = fmt.Errorf("the controller's answer is %q, expected one with %q", status.Controller.LastError, e.Refused)
	}
	return err
}

func (r *run) seenOnMachine(ctx context.Context) (node api.Node, err error) {
	status, err := r.ownStatus(ctx)
	if err != nil {
		return node, err
	}
	node.Status, node.Digest = &status.Node, status.Node.AppliedDigest
	node.Generation = status.Node.ObservedGeneration
	return node, nil
}

func (r *run) withheld(ctx context.Context, e Expect) error {
	if e.Withheld == nil {
		return nil
	}
	node, err := r.seen(ctx)
	if err != nil {
		return err
	}
	return wantWithheld(node, e.Withheld...)
}

func wantWithheld(node api.Node, want ...string) error {
	var got []string
	for _, w := range node.Withheld {
		got = append(got, fmt.Sprintf("%s %s", w.Section, w.Reason))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("withheld are %q (%+v), expected %q", got, node.Withheld, want)
	}
	return nil
}

// journals checks the machine's journal of formats.
func (r *run) journals(ctx context.Context, e Expect) error {
	for name, want := range e.Journal {
		var record struct{ Phase, Permit string }
		out, err := r.node.Pull(ctx, "/var/lib/nodehitch/agent/journal/"+r.disks[name].VolumeID+".json")
		var missing *lab.ExecError
		if err != nil && !errors.As(err, &missing) {
			return err
		}
		if err == nil {
			if err := json.Unmarshal(out, &record); err != nil {
				return fmt.Errorf("reading the journal of %s: %w", name, err)
			}
		}
		if record.Phase != want {
			return fmt.Errorf("the journal of %s says %q, expected %q", name, record.Phase, want)
		}
		if before := r.permits[name]; before != "" && before != record.Permit {
			return fmt.Errorf("the format of %s has the permit %s, and had %s before", name, record.Permit, before)
		}
		r.permits[name] = record.Permit
	}
	return nil
}

func (r *run) active(ctx context.Context, e Expect) error {
	for _, unit := range e.Active {
		if _, err := r.node.Exec(ctx, "systemctl", "is-active", unit); err != nil {
			return err
		}
	}
	return nil
}
