package controllerfault

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// final stops the controller and returns the content of its records, one line each,
// without random values and times.
func (r *rig) final() (lines []string) {
	r.t.Helper()
	r.c.End(syscall.SIGTERM)
	r.stage = "the end"
	r.checkStore()
	r.read(func(s *store.Store) (err error) {
		lines, err = linesOf(s)
		return err
	})
	return lines
}

// linesOf are the records of a store, one line each.
func linesOf(s *store.Store) (lines []string, err error) {
	err = s.View(func(tx *store.Tx) error {
		return tell(tx, func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	})
	slices.Sort(lines)
	return lines, err
}

func tell(tx *store.Tx, say func(string, ...any)) error {
	instances, err := tx.Instances().All()
	for _, i := range instances {
		say("instance %s %s version %d of %d operation %d of %d, awaits %d, nodes %v, volumes %v",
			i.ID, i.State, i.DesiredVersion, i.LastVersion, i.ProcessingSequence, i.LastSequence, i.AwaitingEndSequence, i.NodeIDs, i.VolumeIDs)
	}
	if err != nil {
		return err
	}
	operations, err := tx.Operations().All()
	for _, o := range operations {
		say("operation %d %s %s %s %s error %q versions %d %d %d targets %v", o.Sequence, o.IdempotencyKey, o.Operation.Operation, o.Phase, o.State,
			typeOf(o.Error), o.CreatedVersion, o.PreviousVersion, o.BaseVersion, targets(o))
	}
	if err != nil {
		return err
	}
	nodes, err := tx.Nodes().All()
	for _, n := range nodes {
		say("node %s of %s is %s, expected %v, generation %d, live %v, by hand %v, may enroll %v", n.ID, n.InstanceID, n.Role, n.Expected, n.Generation,
			n.Identity.Live(), n.Identity != nil && n.Identity.RevokedByHand, n.MayReenroll)
	}
	if err != nil {
		return err
	}
	volumes, err := tx.Volumes().All()
	for _, v := range volumes {
		say("volume %s of %q at %q has %s, permit %s of %q overwrites %v, reformat %v", v.ID, v.InstanceID, v.NodeID, v.FilesystemUUID,
			v.Permit.State, v.Permit.NodeID, v.Permit.Overwrite, v.ReformatRequested)
	}
	if err != nil {
		return err
	}
	files, err := tx.Files().All()
	for _, f := range files {
		say("file %s of %s is %s, faults %v, validated %v", f.Path, f.InstanceID, f.SHA256, f.Faults, f.ValidatedFor != "")
	}
	if err != nil {
		return err
	}
	tokens, err := tx.Tokens().All()
	for _, t := range tokens {
		if t.RevokedAt == nil { // the records of revoked ones are kept, also of one whose secret was lost
			say("token %s %s", t.Name, t.Scope)
		}
	}
	return err
}

func typeOf(p *api.Problem) string {
	if p == nil {
		return ""
	}
	return p.Type
}

func targets(o store.Operation) string {
	var list []string
	for _, t := range o.Targets {
		list = append(list, fmt.Sprintf("%s ready %v", t.NodeID, t.Ready))
	}
	return strings.Join(list, ", ")
}
