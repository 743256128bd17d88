package operation

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// awaitStack refuses an END that Heat does not let begin yet, or that has no stack to
// be about. Nothing is recorded of it: it is to be posted again, or not at all. Errors
// that waiting cannot fix are reported first.
func (p *postRequest) awaitStack() error {
	if p.r.Phase != api.PhaseEnd {
		return nil
	}
	switch t := p.stack.Found; {
	case p.stack.Gone != nil:
		return p.stack.Gone
	case p.stack.Away != nil:
		return p.stack.Away
	case stack.Deleted(t) && p.r.Operation != api.Terminate:
		return api.NewProblem(api.ProblemStackGone, fmt.Sprintf("%s; give the id of the stack that took its place, or post TERMINATE", p.said()))
	case t != nil && strings.HasSuffix(t.StackStatus, "_IN_PROGRESS"):
		if err := p.checkReadiness(); err != nil {
			return err
		}
		return api.NewProblem(api.ProblemStackInProgress, p.said())
	}
	return nil
}

// checkStack is why an END cannot succeed: the stack is not what it should be.
func (p *postRequest) checkStack() *api.Problem {
	t := p.given
	rolledBack := t != nil && strings.HasPrefix(t.StackStatus, "ROLLBACK_") // ROLLBACK_COMPLETE too: its update has failed
	if p.r.Phase != api.PhaseEnd || t == nil || t.StackStatus == "" || strings.HasSuffix(t.StackStatus, "_COMPLETE") && !rolledBack {
		return nil
	}
	what := "repair the stack"
	if rolledBack {
		what = "update it again, or check it (openstack stack check) if it stays as it is,"
	}
	return api.NewProblem(api.ProblemStackFailed, p.said()+"; "+what+" and post the END again")
}

// unresolved is the problem of an END whose targets need volumes that the stack does not
// have for them, although it is complete: nothing will add them. What the END brought stays
// in force, so that everything else converges. An END that has not observed the stack does not
// know what it has by now.
func (p *postRequest) unresolved(withheld []api.Withheld) *api.Problem {
	t := p.next.Topology
	if leavesStack(p.r) || t == nil || !strings.HasSuffix(t.StackStatus, "_COMPLETE") {
		return nil
	}
	var list []string
	for _, w := range withheld {
		if w.Reason == api.ReasonVolumeUnresolved && w.Section == api.SectionStorage {
			list = append(list, w.Message)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return api.NewProblem(api.ProblemVolumeUnresolved, fmt.Sprintf("the stack is %s, so it gets no other volumes: %s. "+
		"Or correct volume_resource_id in the parameters. Then post the END again", t.StackStatus, strings.Join(list, "; ")))
}

// said is what Heat says of the stack.
func (p *postRequest) said() string {
	t := p.stack.Found
	name := stackName(p.next)
	if name == "" {
		name = stackName(p.before.Desired)
	}
	return fmt.Sprintf("stack %s is %s: %s", cmp.Or(name, "of this instance"), t.StackStatus, cmp.Or(t.StackStatusReason, "Heat gave no reason"))
}

// stackName names the stack for people.
func stackName(d store.Desired) string {
	if d.StackName == "" {
		return d.StackID
	}
	return fmt.Sprintf("%s (%s)", d.StackName, d.StackID)
}
