package lcm

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
)

// atParams is where additionalParams stand in the body of PUT.
const atParams = fault.Root + "/additionalParams"

// atTopology is where the topology stands in the bodies of PUT and of an operation.
const atTopology = fault.Root + "/topology"

// atStack is where both name the stack.
const atStack = fault.Root + "/stackId"

// desired is a version of the desired state, read.
type desired struct {
	store.Desired
	raw json.RawMessage
	// params is nil where this version of the controller finds faults in what an
	// older one has accepted.
	params *params.Params
	report params.Report
}

// valid is why the parameters cannot be acted on.
func (d *desired) valid() error {
	if d.params != nil {
		return nil
	}
	p := api.NewProblem(api.ProblemConflict, fmt.Sprintf(
		"the parameters of VNF instance %s were accepted by an older controller and are not valid for this one; PUT them again", d.InstanceID))
	p.InvalidParams = d.report.Faults
	return p
}

// desired reads the version in force.
func (u *unit) desired() (*desired, error) { return u.desiredAt(u.inst.DesiredVersion) }

func (u *unit) desiredAt(version int64) (*desired, error) {
	record, found, err := u.tx.Desired().Get(store.DesiredKey(u.inst.ID, version))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("reading instance %s: version %d of its desired state is missing from the store", u.inst.ID, version)
	}
	return u.read(record)
}

func (s *Service) read(record store.Desired) (*desired, error) {
	raw, err := s.Store.Unseal(record.AdditionalParams)
	if err != nil {
		return nil, fmt.Errorf("reading the parameters of instance %s: %w", record.InstanceID, err)
	}
	d := &desired{Desired: record, raw: raw}
	d.params, d.report = params.Parse(raw, atParams)
	return d, nil
}

// inForce is the record of the version in force.
func (u *unit) inForce() (store.Desired, error) {
	record, _, err := u.tx.Desired().Get(store.DesiredKey(u.inst.ID, u.inst.DesiredVersion))
	return record, err
}

// topologyAt is the topology of a version, nil for none and for version 0.
func (u *unit) topologyAt(version int64) (*api.Topology, error) {
	if version == 0 {
		return nil, nil
	}
	record, _, err := u.tx.Desired().Get(store.DesiredKey(u.inst.ID, version))
	return record.Topology, err
}

// force puts a desired state in force as a new version, unless the one in force
// is the same. It returns the version made, 0 for none.
func (u *unit) force(next store.Desired, operation string) (int64, error) {
	if u.inst.DesiredVersion != 0 {
		now, err := u.inForce()
		if err != nil {
			return 0, err
		}
		if sameDesired(now, next) {
			return 0, u.rename(now, next.StackName)
		}
	}
	u.inst.LastVersion++
	u.inst.DesiredVersion = u.inst.LastVersion
	u.inst.UpdatedAt = u.now
	next.InstanceID, next.Version, next.Operation, next.CreatedAt = u.inst.ID, u.inst.LastVersion, operation, u.now
	u.changed()
	return next.Version, u.tx.Desired().Put(store.DesiredKey(u.inst.ID, next.Version), next)
}

// rename keeps the name that the stack has been given. It is no desire: that makes no
// version.
func (u *unit) rename(now store.Desired, name string) error {
	if now.StackName == name {
		return nil
	}
	now.StackName = name
	u.changed()
	return u.tx.Desired().Put(store.DesiredKey(u.inst.ID, now.Version), now)
}

// sameDesired compares what is desired. Whoever makes a version keeps the sealed
// text of what does not change. Heat's status is an observation, not a desire.
func sameDesired(a, b store.Desired) bool {
	return a.StackID == b.StackID && a.Withdraw == b.Withdraw && same(withoutStatus(a.Topology), withoutStatus(b.Topology)) &&
		bytes.Equal(a.AdditionalParams, b.AdditionalParams) &&
		bytes.Equal(a.VIMConnectionInfo, b.VIMConnectionInfo)
}

func withoutStatus(t *api.Topology) *api.Topology {
	if t == nil {
		return nil
	}
	bare := *t
	bare.StackStatus, bare.StackStatusReason = "", ""
	return &bare
}

// reseal is the sealed form of text: the old one where it means the same.
func (s *Service) reseal(old store.Sealed, text []byte) (store.Sealed, error) {
	if len(text) == 0 {
		return old, nil
	}
	plain, err := s.Store.Unseal(old)
	if err != nil {
		return nil, fmt.Errorf("reading the desired state: %w", err)
	}
	if len(old) > 0 && sameJSON(plain, text) {
		return old, nil
	}
	return s.Store.Seal(text)
}
