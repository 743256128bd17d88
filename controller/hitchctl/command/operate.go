package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/nearest"
)

const operateHelp = `Start one phase of an LCM operation, as a Tacker hook would; with --wait, wait for its
end. START and END are separate records and neither needs the other; the default is END.

    INSTANTIATE  at END every node of the topology is in its role
    SCALE        --type SCALE_OUT, or SCALE_IN whose START names each leaving VNFC
    HEAL         --vnfc-instance-id to heal, none is the entire VNF
    TERMINATE    identities are revoked, the instance is NOT_INSTANTIATED
    CHANGE_EXT_CONN
                 --connection-point that changes, none is all; START withdraws the
                 PersistentVolumes if the storage server's address is concerned
    MODIFY_INFO  new parameters or vimConnectionInfo; needs no servers
    CHANGE_VNFPKG
                 new package files and parameters

If the parameters have cluster_members, the START of SCALE_IN and HEAL first lets the
named masters and workers leave the cluster: their Nodes are drained and deleted. While
Pods cannot be evicted it waits until its deadline; "hitchctl describe operation" names
them. --force lets them leave all the same, also if the cluster does not answer.

A HEAL of the storage server withdraws its PersistentVolumes, unless the parameters have
persistent_volumes_at_heal keep: then Pods wait for the new storage server, which mounts
once the cloud shows that the old one is gone. --old-server-is-off states instead that the
old one does not run and never will; while an END waits for the old one, as a hook's does,
that END goes on. It is recorded who says so. If it runs all the same, two servers write to
one filesystem, and the data is lost.

If the controller has a cloud, it reads the servers, addresses and volumes from Heat,
and no --topology is needed. It takes no END while Heat changes the stack; --wait waits
for that too, and shows Heat's own messages.

--deadline is the deadline of the operation: when it has passed, the controller fails
the operation for every client. "hitchctl wait operation --timeout" only ends that
wait. The nodes continue to converge in both cases. The time that Heat takes counts.
"hitchctl cancel operation" ends an operation earlier, and TERMINATE supersedes any.`

// mostDeadline is the longest deadline that the controller accepts.
const mostDeadline = 24 * time.Hour

// operateFlagOf is the flag, or the argument, of each member of the request.
var operateFlagOf = map[string]string{
	"operation": "OPERATION", "phase": "--phase", "topology": "--topology", "stackId": "--stack-id", "type": "--type",
	"aspectId": "--aspect-id", "numberOfSteps": "--number-of-steps", "vnfcInstanceIds": "--vnfc-instance-id", "connectionPointNames": "--connection-point",
	"partial": "--partial", "force": "--force", "persistentVolumes": "--keep-persistent-volumes", "oldServerIsOff": "--old-server-is-off", "idempotencyKey": "--idempotency-key", "deadlineSeconds": "--deadline",
}

type operateFlags struct {
	operation              api.OperationRequest
	phase, scale, topology string
	deadline               time.Duration
	keepVolumes, wait      bool
	output                 output
	// given says whether the command line has the flag of this name.
	given func(string) bool
}

func (a *app) operate() *cobra.Command {
	var f operateFlags
	cmd := &cobra.Command{
		Use:   "operate INSTANCE_ID OPERATION",
		Short: "Start an LCM operation, and wait for it", Long: operateHelp,
		Example: `  hitchctl operate 0b1a5c2e INSTANTIATE --stack-id vnflcm_0b1a5c2e --wait
  hitchctl operate 0b1a5c2e INSTANTIATE --topology topology.json --wait
  hitchctl operate 0b1a5c2e SCALE --type SCALE_IN --phase START \
    --vnfc-instance-id 5c41… --vnfc-instance-id 77ab…
  hitchctl operate 0b1a5c2e TERMINATE --wait --deadline 5m`,
		Args: cobra.ExactArgs(2), Annotations: map[string]string{"OPERATION": strings.Join(operations, ", ")},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return operations, cobra.ShellCompDirectiveNoFileComp
			}
			return instanceKind.complete(a, true)(cmd, args, text)
		},
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			body, err := a.operationRequest(f, args[1])
			if err != nil {
				return err
			}
			return a.startOperation(ctx, c, args[0], body, f)
		}),
	}
	flags, o := cmd.Flags(), &f.operation
	f.given = flags.Changed
	flags.StringVar(&f.phase, "phase", "", "START or END (default END)")
	flags.StringVar(&f.topology, "topology", "", "file with the topology as it is now, if the controller has no cloud; - is standard input")
	flags.StringVar(&o.StackID, "stack-id", "", "id or name of the Heat stack, if it has changed")
	flags.StringVar(&f.scale, "type", "", "SCALE: SCALE_OUT or SCALE_IN")
	flags.StringVar(&o.AspectID, "aspect-id", "", "SCALE: the scaling aspect")
	flags.IntVar(&o.NumberOfSteps, "number-of-steps", 0, "SCALE: number of steps")
	flags.StringArrayVar(&o.VnfcInstanceIds, "vnfc-instance-id", nil, "HEAL: a VNFC to heal; SCALE_IN START: one that leaves; may be repeated")
	flags.StringArrayVar(&o.ConnectionPointNames, "connection-point", nil, "CHANGE_EXT_CONN: a connection point that changes, by its name; may be repeated")
	flags.BoolVar(&o.Partial, "partial", false, "required roles without a server do not fail the operation")
	flags.BoolVar(&o.Force, "force", false, "START of SCALE_IN and HEAL: members leave the cluster even if it does not let them")
	flags.BoolVar(&f.keepVolumes, "keep-persistent-volumes", false, "HEAL of the storage server: keep its PersistentVolumes, or withdraw them if =false (default what the parameters say)")
	flags.BoolVar(&o.OldServerIsOff, "old-server-is-off", false, "HEAL that keeps PersistentVolumes: the old storage server does not run and never will")
	flags.StringVar(&o.IdempotencyKey, "idempotency-key", "", "join or return the operation that was started with this key")
	flags.DurationVar(&f.deadline, "deadline", 0, "the operation's deadline, 1s to 24h (default the controller's, 30m)")
	flags.BoolVar(&f.wait, "wait", false, "wait until it has finished; exit code 1 if it failed")
	completeFlag(cmd, "phase", phases...)
	completeFlag(cmd, "type", scaleTypes...)
	outputFlag(cmd, &f.output)
	return cmd
}

func (a *app) operationRequest(f operateFlags, operation string) (api.OperationRequest, error) {
	o := f.operation
	o.Operation = api.OperationType(strings.ToUpper(operation))
	o.Phase = api.OperationPhase(strings.ToUpper(f.phase))
	o.Type = api.ScaleType(strings.ToUpper(f.scale))
	if f.given("keep-persistent-volumes") {
		o.PersistentVolumes = api.WithdrawPersistentVolumes
		if f.keepVolumes {
			o.PersistentVolumes = api.KeepPersistentVolumes
		}
	}
	o.DeadlineSeconds = int(f.deadline.Round(time.Second) / time.Second)
	switch {
	case !o.Operation.Valid():
		return o, usageError{nearest.Unknown("operation", operation, operations)}
	case o.Phase != "" && !o.Phase.Valid():
		return o, usagef("--phase %q: expected START or END", f.phase)
	case o.Type != "" && !o.Type.Valid():
		return o, usagef("--type %q: expected SCALE_OUT or SCALE_IN", f.scale)
	case o.Operation == api.Scale && o.Type == "":
		return o, usagef("SCALE needs --type SCALE_OUT or SCALE_IN")
	case f.given("deadline") && (f.deadline < time.Second || f.deadline > mostDeadline):
		return o, usagef("--deadline %s: expected 1s to 24h", present.Typed(f.deadline))
	}
	if f.topology == "" {
		return o, nil
	}
	data, err := a.read(f.topology)
	if err != nil {
		return o, err
	}
	t, faults := request.ReadTopology(data)
	for _, fault := range faults {
		a.printErrorLine(screen.CleanLines("--topology " + sentence(request.Finding{Document: f.topology, Fault: fault})))
	}
	if len(faults) > 0 {
		a.printHint(a.mendFile() + "; " + topologyForm)
		return o, errSaid
	}
	o.Topology = t
	return o, nil
}

func (a *app) startOperation(ctx context.Context, c *client.Controller, instance string, body api.OperationRequest, f operateFlags) error {
	id, err := instanceKind.resolve(ctx, c, instance)
	if err != nil {
		return err
	}
	what := subject{instance: id, flags: operateFlagOf}
	o, err := a.post(ctx, c, id, body, f)
	if err != nil {
		return subjectError{err, what}
	}
	if f.output == asTable {
		fmt.Fprintf(a.out, "operation %s: %s\n", describe.ShortOperation(*o), titleOf(*o))
	}
	if o.Joined && (f.given("idempotency-key") || o.Operation == api.Terminate || f.operation.OldServerIsOff) { // else it is this command's own, whose answer was lost
		a.printLine("joined", screen.Waiting, a.joinedText(*o, f.given))
	}
	for _, w := range o.Warnings {
		a.warn(what.fault(w))
	}
	if f.wait {
		return a.waitOperation(ctx, c, *o, waitFlags{output: f.output})
	}
	if f.output != asTable {
		return a.encode(f.output, o)
	}
	return nil
}

// joinedText says that an earlier request started the operation, and which flags of this
// one do not count. Without a key, the statement of the old server does.
func (a *app) joinedText(o api.Operation, given func(string) bool) string {
	text := "an earlier request started this operation, " + describe.Age(a.now().Sub(o.StartedAt)) + " ago"
	if o.State != api.Processing {
		text += "; it is " + string(o.State)
	}
	unused := slices.DeleteFunc([]string{"--topology", "--stack-id", "--deadline", "--partial", "--force", "--keep-persistent-volumes", "--old-server-is-off", "--number-of-steps", "--vnfc-instance-id"},
		func(flag string) bool { return !given(strings.TrimPrefix(flag, "--")) })
	if given("old-server-is-off") && !given("idempotency-key") {
		text += "; of the old storage server, " + describe.OldServerIsOff(o.OldServerIsOffBy)
		unused = slices.DeleteFunc(unused, func(flag string) bool { return flag == "--old-server-is-off" || flag == "--vnfc-instance-id" })
	}
	if len(unused) > 0 {
		text += "; not used: " + strings.Join(unused, ", ")
	}
	return text
}

func (a *app) waitOperationNamed(ctx context.Context, c *client.Controller, arg string, f waitFlags) error {
	o, err := operationKind.find(ctx, c, arg)
	if err != nil {
		return err
	}
	return a.waitOperation(ctx, c, o, f)
}

// waitOperation waits until the operation has finished. It has a deadline of its
// own, so the wait needs none.
func (a *app) waitOperation(ctx context.Context, c *client.Controller, o api.Operation, f waitFlags) error {
	poll := func(ctx context.Context, _, hold string) (*http.Response, error) {
		return c.GetOperation(ctx, o.VnfInstanceID, o.Sequence, &api.GetOperationParams{Wait: orNil(hold)})
	}
	started := o
	current := func(s waitState) api.Operation {
		if s.operation != nil {
			return *s.operation
		}
		return started
	}
	w := waiter{
		app: a, display: a.display(f.output), timeout: f.timeout, title: titleOf(o),
		watch: []watcher{
			watching(follow.Poll(poll), func(s *waitState, o *api.Operation) { s.operation = o }),
			watchNodes(c, o.VnfInstanceID),
		},
		shown:   func(s waitState) []api.Node { return targetsOf(s, current(s)) },
		refresh: refreshNodes(c, o.VnfInstanceID),
		right: func(s waitState, now time.Time) string {
			o := current(s)
			return describe.Age(now.Sub(o.StartedAt)) + ", deadline in " + describe.Age(o.Deadline.Sub(now))
		},
		done: func(s waitState) (bool, error) {
			o := current(s)
			if o.State == api.Processing || !s.known.nodes {
				return false, nil
			}
			if o.State == api.Failed {
				return true, operationError(o)
			}
			return true, nil
		},
		result: func(s waitState, _ time.Duration) string {
			o := current(s)
			text := titleOf(o) + " completed"
			if o.FinishedAt != nil {
				text += " in " + describe.Age(o.FinishedAt.Sub(o.StartedAt))
			}
			return text
		},
	}
	s, err := w.run(ctx)
	if errors.Is(err, context.Canceled) {
		a.printLine("interrupted", screen.Waiting, fmt.Sprintf("the operation goes on; resume with `hitchctl wait operation %s`, or end it with `hitchctl cancel operation %[1]s`", describe.ShortOperation(o)))
	}
	if f.output != asTable {
		return cmp.Or(a.encode(f.output, current(s)), err)
	}
	return err
}

// targetsOf are the nodes that the operation waits for; all of the instance if
// it does not say.
func targetsOf(s waitState, o api.Operation) []api.Node {
	if len(o.Targets) == 0 {
		return s.nodes
	}
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n api.Node) bool {
		return !slices.ContainsFunc(o.Targets, func(t api.OperationTarget) bool { return t.NodeID == n.ID })
	})
}

// operationError says why an operation failed, and what to do about each target
// that is not ready.
func operationError(o api.Operation) error {
	text := titleOf(o) + " failed"
	if o.Error != nil {
		text += ": " + describe.Problem(*o.Error)
		if o.Error.Detail != "" {
			text += ": " + o.Error.Detail
		}
		for _, f := range o.Error.InvalidParams {
			text += "\n  " + f.String()
		}
	}
	for _, t := range o.Targets {
		if doc := api.Reasons[t.Reason]; !t.Ready && doc.Action != "" {
			text += "\n  " + t.Name + ", " + t.Reason + ": " + doc.Action
		}
	}
	return errors.New(text)
}
