package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/agent/connection/files"
	"github.com/nodehitch/nodehitch/agent/connection/identity"
	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi"
	"github.com/nodehitch/nodehitch/agent/role/storage"
	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/api"
)

// applyOptions are the flags of apply.
type applyOptions struct {
	file, output, state, lock, kubeconfig string
	dryRun                                bool
	permit                                []string
}

func applyCommand() *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply --filename node.json",
		Short: "Converge this machine once, without any controller",
		Long: "Reads a node configuration (JSON or YAML), converges the machine to it once, and\n" +
			"prints the conditions. Exit code 0: converged; 1: not; 2: the file or the command\n" +
			"line is wrong. A disk is formatted only if its volume is named with\n" +
			"--permit-format, and only if the disk is blank.",
		Example: "  nodehitch-agent apply --filename node.json --dry-run\n" +
			"  nodehitch-agent apply --filename node.json --permit-format 6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f",
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return apply(cmd, o) },
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "the node configuration; - is standard input")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print what would be done, do nothing")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table or json")
	cmd.Flags().StringArrayVar(&o.permit, "permit-format", nil, "`volume id` that may be formatted; may be given again")
	cmd.Flags().StringVar(&o.state, "state-directory", state.DefaultDirectory, "`directory` of the agent's state, with the journal of formats")
	cmd.Flags().StringVar(&o.lock, "lock-file", state.LockFile, "`file` that the process which converges the machine holds")
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", kubeapi.AdminKubeconfig, "`file` by which PersistentVolumes are looked at")
	return cmd
}

func apply(cmd *cobra.Command, o applyOptions) error {
	doc, err := o.read(cmd.InOrStdin())
	if err != nil {
		return &usageError{err}
	}
	if os.Geteuid() != 0 {
		return errors.New("this machine can be inspected and changed by root alone: run the command as root, for a dry run too")
	}
	if !o.dryRun {
		lock, err := o.begin()
		if err != nil {
			return err
		}
		defer lock.Release() //nolint:errcheck // the process ends
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	machine := host.Linux(log)
	steps := engine(machine, log, storage.Operator{VolumeIDs: o.permit}, files.New(o.state, log), nodeID(cmd.Context(), o.state), o.state, o.kubeconfig)
	report := steps.Converge(cmd.Context(), doc, converge.Options{
		DryRun: o.dryRun, Observe: progress(cmd.ErrOrStderr()),
	})
	if err := print(cmd.OutOrStdout(), o, report, machine.Changes.Count()); err != nil {
		return err
	}
	if !report.Converged() {
		return &notConverged{}
	}
	return nil
}

// read checks the flags and reads the configuration, and says all that is wrong.
func (o applyOptions) read(stdin io.Reader) (*api.NodeConfig, error) {
	if o.output != "table" && o.output != "json" {
		return nil, fmt.Errorf("--output %s: expected table or json", o.output)
	}
	for _, id := range o.permit {
		if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
			return nil, fmt.Errorf("--permit-format %s: expected the volume's id, a UUID in lower case", id)
		}
	}
	var content []byte
	var err error
	switch o.file {
	case "":
		return nil, errors.New("--filename is missing: it names the node configuration")
	case "-":
		content, err = io.ReadAll(stdin)
	default:
		content, err = os.ReadFile(o.file)
	}
	if err != nil {
		return nil, err
	}
	doc, err := document.Decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s is no node configuration:\n%w", o.file, err)
	}
	return doc, o.checkPermits(doc)
}

// checkPermits refuses to permit the format of a volume that the configuration does not have.
func (o applyOptions) checkPermits(doc *api.NodeConfig) error {
	var volumes []api.StorageVolume
	if doc.Storage != nil {
		volumes = doc.Storage.Volumes
	}
	for _, id := range o.permit {
		if !slices.ContainsFunc(volumes, func(v api.StorageVolume) bool { return v.VolumeID == id }) {
			return fmt.Errorf("--permit-format %s: %s has no volume with this id", id, o.file)
		}
	}
	return nil
}

// begin keeps the daemon and apply from working against each other, and makes
// the state directory where this is the first that needs it.
func (o applyOptions) begin() (*state.Lock, error) {
	lock, err := state.TakeLock(o.lock, "nodehitch-agent apply")
	var locked *state.Locked
	if errors.As(err, &locked) {
		return nil, fmt.Errorf("%w; stop the service (`systemctl stop nodehitch-agent`), or let it do the work", err)
	}
	if err != nil {
		return nil, err
	}
	_, err = state.Open(o.state)
	return lock, err
}

// nodeID is this machine's id in the journal of formats: the id that it enrolled with,
// else the one that it finds, else "".
func nodeID(ctx context.Context, directory string) string {
	if machine, err := state.At(directory).Machine(); err == nil && machine != nil {
		return machine.NodeID
	}
	claim, err := identity.This().Find(ctx)
	if err != nil {
		return ""
	}
	return claim.ID
}

// progress prints what is being done, as it is done.
func progress(w io.Writer) func(converge.Event) {
	return func(e converge.Event) {
		switch {
		case !e.Finished:
			fmt.Fprintf(w, "%s: %s …\n", e.Condition, e.Summary)
		case e.Err != nil:
			fmt.Fprintf(w, "%s: %s: failed after %s\n", e.Condition, e.Summary, e.Took.Round(time.Millisecond))
		default:
			fmt.Fprintf(w, "%s: %s: done in %s\n", e.Condition, e.Summary, e.Took.Round(time.Millisecond))
		}
	}
}

// outcome is the form of -o json.
type outcome struct {
	Converged  bool            `json:"converged"`
	DryRun     bool            `json:"dryRun"`
	Conditions []api.Condition `json:"conditions"`
	Steps      []stepOutcome   `json:"steps"`
	Changes    changes         `json:"changes"`
}

// changes is how much of the machine was changed: all zero if it was converged.
// Engine is what the container engine was asked to change.
type changes struct {
	Files       int64 `json:"files"`
	Commands    int64 `json:"commands"`
	Units       int64 `json:"units"`
	Directories int64 `json:"directories"`
	Engine      int64 `json:"engine"`
}

// stepOutcome is one step: what its first plan was, what of it was done, and
// what the second plan still has.
type stepOutcome struct {
	Condition string   `json:"condition"`
	Planned   []string `json:"planned"`
	Done      []string `json:"done"`
	Left      []string `json:"left"`
}

func print(w io.Writer, o applyOptions, r converge.Report, c host.Count) error {
	if o.output == "json" {
		out := outcome{Converged: r.Converged(), DryRun: o.dryRun, Conditions: r.Conditions, Steps: []stepOutcome{}, Changes: changes{c.Files, c.Commands, c.Units, c.Directories, c.Engine}}
		for _, s := range r.Results {
			if s.HandsOff {
				continue
			}
			out.Steps = append(out.Steps, stepOutcome{s.Condition, summaries(s.Planned), append([]string{}, s.Done...), summaries(s.Left)})
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	if o.dryRun {
		printPlan(w, r)
	}
	return conditionTable(w, brief(o, r.Conditions))
}

// brief is the conditions without what printPlan has said already.
func brief(o applyOptions, conditions []api.Condition) []api.Condition {
	if !o.dryRun {
		return conditions
	}
	conditions = slices.Clone(conditions)
	for i := range conditions {
		if conditions[i].Reason == api.ReasonConverging {
			conditions[i].Message = "see above what would be done"
		}
	}
	return conditions
}

func printPlan(w io.Writer, r converge.Report) {
	n := 0
	for _, s := range r.Results {
		for _, a := range s.Planned {
			n++
			fmt.Fprintf(w, "would do: %s: %s\n", s.Condition, a.Summary)
		}
	}
	switch unknown := notInspected(r); {
	case len(unknown) > 0:
		fmt.Fprintf(w, "systemd does not answer, so it is not known what would be done for %s\n", strings.Join(unknown, ", "))
	case n == 0:
		fmt.Fprintln(w, "nothing would be done")
	}
	fmt.Fprintln(w)
}

// notInspected are the conditions of the steps that systemd gave no answer: an empty plan
// of theirs says nothing.
func notInspected(r converge.Report) []string {
	var conditions []string
	for _, s := range r.Results {
		var silent *host.NoSystemdError
		if errors.As(s.Err, &silent) {
			conditions = append(conditions, s.Condition)
		}
	}
	return conditions
}

func summaries(actions []converge.Action) []string {
	lines := make([]string, len(actions))
	for i, a := range actions {
		lines[i] = a.Summary
	}
	return lines
}
