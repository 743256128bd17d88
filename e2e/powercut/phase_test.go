package powercut

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// phase is how far a machine has come with its newest volume, told from what can be
// seen from outside: the controller's records, the volume's file, the console.
type phase int

const (
	unasked phase = iota // no permit yet: injecting, enrolling, blank check
	granted              // the permit is on its way or there
	started              // mkfs may begin; nothing was written in this boot
	making               // mkfs has written, the superblock is not there
	made                 // the superblock is there: writing the rest, checking, mounting
	booting              // made before this boot, and not mounted in it
	mounted              // mounted in this boot, not reported as served
	serving              // mounted and exported, says the controller
	writing              // records are being written to it, and enough of them acknowledged
	phases  int   = iota
)

var phaseNames = [phases]string{"unasked", "granted", "started", "mkfs", "made", "booting", "mounted", "serving", "writing"}

func (p phase) String() string { return phaseNames[p] }

// phase observes the machine, running or off.
func (l *life) phase(ctx context.Context) (phase, error) {
	v := l.newest()
	known, err := client.Read[api.Volume](l.api.GetVolume(ctx, v.disk.VolumeID, nil))
	if err != nil {
		var problem *api.Problem
		if errors.As(err, &problem) && problem.Status == 404 {
			return unasked, nil // it was plugged in before the controller was told of it
		}
		return 0, err
	}
	super, err := v.superblock()
	if err != nil {
		return 0, err
	}
	switch known.PermitState {
	case api.PermitNone:
		return unasked, nil
	case api.PermitGranted:
		return granted, nil
	}
	switch {
	case super.mounts > v.mounts:
		return l.phaseOfUse(ctx)
	case known.PermitState == api.PermitStarted && v.format == "":
		return v.phaseOfMkfs(super)
	}
	return booting, nil
}

// phaseOfMkfs goes by what has been written in this boot.
func (v *volume) phaseOfMkfs(super superblock) (phase, error) {
	writes, err := v.disk.Writes()
	switch {
	case super.uuid == "" && writes == 0:
		return started, err
	case super.uuid == "":
		return making, err
	case writes == 0:
		return booting, err // it was made, and perhaps mounted, but not reported
	}
	return made, err
}

func (l *life) phaseOfUse(ctx context.Context) (phase, error) {
	if l.boot.writing == l.newest() && l.saved(l.newest()) >= l.boot.saved+enoughRecords {
		return writing, nil
	}
	node, err := client.Read[api.Node](l.api.GetNode(ctx, l.storage.Server.ID, nil))
	if err == nil && l.ready(node) == nil {
		return serving, nil
	}
	return mounted, err
}

// ready says what is missing until the node's report of this boot is a good one.
func (l *life) ready(node *api.Node) error {
	if node.LastSeenAt == nil || node.Status == nil || node.LastSeenAt.Before(l.boot.began) {
		return errors.New("the controller has not heard of the agent since the boot")
	}
	if l.exports && node.Status.AppliedDigest != node.Digest {
		return errors.New("the newest document is not applied")
	}
	conditions := map[string]api.Reason{api.ConditionVolumesMounted: api.ReasonMounted}
	if l.exports {
		conditions[api.ConditionExportsServed] = api.ReasonServed
	}
	for condition, want := range conditions {
		c := node.Status.Condition(condition)
		if c == nil {
			return errors.New(condition + " is not reported")
		}
		if c.Status != api.ConditionTrue || c.Reason != want {
			return fmt.Errorf("%s is %s %s: %s", condition, c.Status, c.Reason, c.Message)
		}
	}
	return nil
}
