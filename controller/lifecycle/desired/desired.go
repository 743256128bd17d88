// Package desired keeps the versions of an instance's desired state: which one is in
// force, what its parameters mean, and when there is a new one.
package desired

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// Where faults stand: AtParams in the body of PUT, AtTopology and AtStack in the bodies
// of PUT and of an operation.
const (
	AtParams   = fault.Root + "/additionalParams"
	AtTopology = fault.Root + "/topology"
	AtStack    = fault.Root + "/stackId"
)

// State is a version of the desired state, read.
type State struct {
	store.Desired
	Parameters
}

// Valid is why the parameters cannot be acted on: an older controller has accepted them.
func (d *State) Valid() error {
	if d.Params != nil {
		return nil
	}
	p := api.NewProblem(api.ProblemConflict, fmt.Sprintf(
		"the parameters of VNF instance %s were accepted by an older controller and are not valid for this one; PUT /v1/vnf_instances/%s brings valid ones", d.InstanceID, d.InstanceID)).With(
		api.Action{Call: api.CallPutInstance, ID: d.InstanceID})
	p.InvalidParams = d.Report.Faults
	return p
}

// InForce reads the version in force.
func InForce(t *tx.Tx) (*State, error) {
	record, found, err := t.Desired().Get(store.DesiredKey(t.Instance.ID, t.Instance.DesiredVersion))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("reading instance %s: version %d of its desired state is missing from the store", t.Instance.ID, t.Instance.DesiredVersion)
	}
	read, err := readParameters(t.Store, record.AdditionalParams)
	if err != nil {
		return nil, fmt.Errorf("reading the parameters of instance %s: %w", record.InstanceID, err)
	}
	return &State{Desired: record, Parameters: read}, nil
}

// Record is the record of the version in force, its parameters sealed.
func Record(t *tx.Tx) (store.Desired, error) {
	record, _, err := t.Desired().Get(store.DesiredKey(t.Instance.ID, t.Instance.DesiredVersion))
	return record, err
}

// TopologyAt is the topology of a version, nil for none and for version 0.
func TopologyAt(t *tx.Tx, version int64) (*api.Topology, error) {
	if version == 0 {
		return nil, nil
	}
	record, _, err := t.Desired().Get(store.DesiredKey(t.Instance.ID, version))
	return record.Topology, err
}

// Activate puts a desired state in force as a new version, unless the one in force is
// the same. operation is the id of the one that does so, "" for none. It returns the
// version made, 0 for none.
func Activate(t *tx.Tx, next store.Desired, operation string) (int64, error) {
	if t.Instance.DesiredVersion != 0 {
		now, err := Record(t)
		if err != nil {
			return 0, err
		}
		if same(now, next) {
			return 0, rename(t, now, next.StackName)
		}
	}
	t.Instance.LastVersion++
	t.Instance.DesiredVersion = t.Instance.LastVersion
	t.Instance.UpdatedAt = t.Now
	next.InstanceID, next.Version, next.OperationID, next.CreatedAt = t.Instance.ID, t.Instance.LastVersion, operation, t.Now
	t.Changed()
	return next.Version, t.Desired().Put(store.DesiredKey(t.Instance.ID, next.Version), next)
}

// rename keeps the name that the stack has been given. A name is no desire and makes no
// version.
func rename(t *tx.Tx, now store.Desired, name string) error {
	if now.StackName == name {
		return nil
	}
	now.StackName = name
	t.Changed()
	return t.Desired().Put(store.DesiredKey(t.Instance.ID, now.Version), now)
}

// same compares what is desired. Callers that make a version keep the sealed text of
// what does not change. Heat's status is an observation, not a desire.
func same(a, b store.Desired) bool {
	return a.StackID == b.StackID && a.WithdrawPersistentVolumes == b.WithdrawPersistentVolumes &&
		slices.Equal(a.Leaving, b.Leaving) && a.Force == b.Force && store.Same(withoutStatus(a.Topology), withoutStatus(b.Topology)) &&
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

// Reseal is the sealed form of text: the old one if it means the same.
func Reseal(s *store.Store, old store.Sealed, text []byte) (store.Sealed, error) {
	if len(text) == 0 {
		return old, nil
	}
	plain, err := s.Unseal(old)
	if err != nil {
		return nil, fmt.Errorf("reading the desired state: %w", err)
	}
	if len(old) > 0 && SameJSON(plain, text) {
		return old, nil
	}
	return s.Seal(text)
}

// ValidatedFor names the parameters for which package files are validated, by their
// sealed text, which stays the same for as long as they do, and the kinds of faults that
// this controller finds: one that finds more validates again.
func ValidatedFor(d store.Desired) string {
	sum := sha256.Sum256(append([]byte("manifests, images\n"), d.AdditionalParams...))
	return hex.EncodeToString(sum[:16])
}
