package invariant

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	inst   = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
	server = "3f0c1d52-aaaa-4000-8000-000000000001"
	volume = "3f0c1d52-bbbb-4000-8000-000000000001"
	other  = "3f0c1d52-cccc-4000-8000-000000000001"
	digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// world is records that fit: an instance that is being instantiated.
type world struct {
	i       store.Instance
	d       store.Desired
	n       store.Node
	v       store.Volume
	start   store.Operation
	end     store.Operation
	f       store.File
	t       store.Token
	besides func(*store.Tx) error
	seal    func(text string) store.Sealed
}

func whole(t *testing.T, s *store.Store) *world {
	t.Helper()
	now := time.Now()
	config := api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleStorage, Storage: &api.StorageSection{
		Volumes: []api.StorageVolume{{VolumeID: volume, FilesystemUUID: api.FilesystemUUID(volume)}}}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	seal := func(text string) store.Sealed {
		sealed, err := s.Seal([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	operation := func(sequence int64, phase api.OperationPhase, state api.OperationState) store.Operation {
		return store.Operation{Operation: api.Operation{ID: api.OperationID(inst, sequence), VnfInstanceID: inst, Sequence: sequence, Phase: phase, State: state}}
	}
	w := &world{
		i: store.Instance{ID: inst, DesiredVersion: 1, LastVersion: 1, LastSequence: 2, ProcessingSequence: 2, NodeIDs: []string{server}, VolumeIDs: []string{volume},
			JoinTokenID: "t", JoinTokenMAC: make([]byte, 32)},
		d: store.Desired{InstanceID: inst, Version: 1},
		n: store.Node{ID: server, InstanceID: inst, Role: api.RoleStorage, Expected: true, Generation: 1, Digest: config.Digest(), Config: seal(string(text)),
			Identity: &store.Identity{Serial: "1", KeyHash: "k", EnrolledAt: now}},
		v: store.Volume{ID: volume, InstanceID: inst, NodeID: server, FilesystemUUID: api.FilesystemUUID(volume),
			Permit: store.Permit{State: api.PermitStarted, ID: "p", NodeID: server, Epoch: 1, SizeBytes: 1}},
		start: operation(1, api.PhaseStart, api.Completed),
		end:   operation(2, api.PhaseEnd, api.Processing),
		f:     store.File{InstanceID: inst, Path: "a", SHA256: digest},
		t:     store.Token{Token: api.Token{ID: "t", Scope: api.ScopeViewer}, MAC: make([]byte, 32)},
	}
	w.start.FinishedAt, w.seal = &now, seal
	w.besides = func(*store.Tx) error { return nil }
	return w
}

func (w *world) put(tx *store.Tx) error {
	for _, err := range []error{
		tx.Instances().Put(inst, w.i), tx.Desired().Put(store.DesiredKey(inst, 1), w.d), tx.Nodes().Put(server, w.n), tx.Volumes().Put(volume, w.v),
		tx.Operations().Put(store.OperationKey(inst, 1), w.start), tx.Operations().Put(store.OperationKey(inst, 2), w.end),
		tx.Files().Put(store.FileKey(inst, "a"), w.f), tx.Tokens().Put("t", w.t), w.besides(tx),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestWhatContradictsIsNamed(t *testing.T) {
	now := time.Now()
	for says, change := range map[string]func(*world){
		"":                                    func(*world) {},
		"desired version 2 is missing":        func(w *world) { w.i.DesiredVersion = 2 },
		"and the newest is 0":                 func(w *world) { w.i.LastVersion = 0 },
		"version 2 of its desired state":      func(w *world) { w.i.LastVersion = 2 },
		"damaged, or was sealed with another": func(w *world) { w.d.AdditionalParams = []byte{1, 2, 3} },
		"join token is not whole":             func(w *world) { w.i.JoinTokenMAC = nil },
		"are out of order":                    func(w *world) { w.i.NodeIDs = []string{server, other, server} },
		"its volume " + other + " is missing": func(w *world) { w.i.VolumeIDs = []string{volume, other} },
		"operation 3 is missing, the newest":  func(w *world) { w.i.LastSequence = 3 },
		"and is in progress or awaited":       func(w *world) { w.i.ProcessingSequence = 0; w.i.AwaitingEndSequence = 7 },
		"and operation 2 needs it":            func(w *world) { w.end.BaseVersion = 7 },
		"there is an operation 2":             func(w *world) { w.i.LastSequence, w.i.ProcessingSequence = 1, 0 },
		"the operation in progress is 0":      func(w *world) { w.i.ProcessingSequence = 0 },
		"it is COMPLETED and the operation":   func(w *world) { w.end.State, w.end.FinishedAt = api.Completed, &now },
		"it is PROCESSING and ended":          func(w *world) { w.end.FinishedAt = &now },
		"with the error <nil>":                func(w *world) { w.start.State = api.Failed },
		"cancelled it and its error":          func(w *world) { w.start.CancelledBy = "token a" },
		"says that a request joined it":       func(w *world) { w.start.Joined = true },
		"its END is awaited":                  func(w *world) { w.i.AwaitingEndSequence = 1 },
		"no START is in progress or awaits":   func(w *world) { w.d.WithdrawPersistentVolumes = true },
		"or was a SCALE_IN":                   func(w *world) { w.d.Leaving = []string{server} },
		"nobody leaves the cluster by force":  func(w *world) { w.d.Force = true },
		"in progress and withdraws nothing":   func(w *world) { w.end.Phase = api.PhaseStart },
		"its cluster secret has 3 bytes":      func(w *world) { w.i.ClusterSecret = w.seal("abc") },
		"the cluster secret of instance":      func(w *world) { w.i.ClusterSecret = []byte{1, 2, 3} },
		"is known, and has no members":        func(w *world) { w.i.ClusterFacts = w.seal("{}") },
		"the members [" + other + " " + server + "] of its cluster are out of order": func(w *world) {
			w.i.CarriedOver.Members = []string{other, server}
		},
		other + " may still write to them":        func(w *world) { w.i.CarriedOver.VolumeServer = other },
		"that may write to its volumes is none":   func(w *world) { w.i.CarriedOver.VolumeServer = other },
		"which is no old storage server":          func(w *world) { w.i.CarriedOver.VolumeServer, w.i.CarriedOver.VolumeServerShown = server, "ACTIVE" },
		"the member " + other + " of its cluster": func(w *world) { w.i.CarriedOver.Members = []string{other} },
		"all have what one master does": func(w *world) {
			w.i.NodeIDs = []string{server, other}
			w.n.Conditions = []string{api.ConditionClusterMembersCurrent}
			w.besides = func(tx *store.Tx) error {
				second := w.n
				second.ID = other
				return tx.Nodes().Put(other, second)
			}
		},
		"refers to version 7": func(w *world) { w.end.BaseVersion = 7 },
		"its target x is not ready": func(w *world) {
			w.i.ProcessingSequence, w.end.State, w.end.FinishedAt, w.end.Targets = 0, api.Completed, &now, []api.OperationTarget{{NodeID: "x"}}
		},
		"its instance " + other + " is missing": func(w *world) { w.n.InstanceID = other },
		"does not list it":                      func(w *world) { w.i.NodeIDs = nil },
		"its record says 2":                     func(w *world) { w.n.Generation = 2 },
		"its identity is not whole":             func(w *world) { w.n.Identity.PreviousSerial = "1" },
		"was revoked by hand and is let in":     func(w *world) { w.n.Identity.RevokedByHand = true },
		"it may read the files [" + digest:      func(w *world) { w.n.Files = []string{digest} },
		"the file gone that its document":       func(w *world) { w.n.Files = []string{"gone"} },
		"is with node \"\"":                     func(w *world) { w.v.NodeID = "" },
		"is with node " + other:                 func(w *world) { w.v.NodeID = other },
		"given to no node":                      func(w *world) { w.v.Permit.NodeID = "" },
		"in no state that there is":             func(w *world) { w.v.Permit.State = "" },
		"a state without one":                   func(w *world) { w.v.Permit.State = api.PermitAdopted },
		"was not confirmed":                     func(w *world) { w.v.Permit.Overwrite = true },
		"allowed beside a permit":               func(w *world) { w.v.ReformatRequested = true },
		"is that of " + volume: func(w *world) {
			w.besides = func(tx *store.Tx) error {
				return tx.Volumes().Put(other, store.Volume{ID: other, FilesystemUUID: w.v.FilesystemUUID, Permit: store.Permit{State: api.PermitNone}})
			}
		},
		"is of no instance": func(w *world) {
			w.besides = func(tx *store.Tx) error {
				return tx.Desired().Put(store.DesiredKey(other, 1), store.Desired{InstanceID: other, Version: 1})
			}
		},
		"is under another key": func(w *world) {
			w.besides = func(tx *store.Tx) error {
				return tx.Volumes().Put("x", store.Volume{ID: other, FilesystemUUID: other, Permit: store.Permit{State: api.PermitNone}})
			}
		},
		"the content of the file a": func(w *world) { w.f.SizeBytes = 7 },
		"the token \"t\" is not":    func(w *world) { w.t.MAC = nil },
	} {
		t.Run(says, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s, err := storetest.Open(t, store.Options{Path: filepath.Join(dir, "store.db"), Key: store.KeySource{File: filepath.Join(dir, "key"), Create: true}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			w := whole(t, s)
			change(w)
			if err := s.Update(w.put); err != nil {
				t.Fatal(err)
			}
			broken, err := Check(s, func(sha256 string) (int64, error) {
				if sha256 == "gone" {
					return 0, errors.New("no such blob")
				}
				return 0, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if said := slices.ContainsFunc(broken, func(b string) bool { return strings.Contains(b, says) }); said == (says == "") {
				t.Errorf("found %q, want %q", broken, says)
			}
		})
	}
}
