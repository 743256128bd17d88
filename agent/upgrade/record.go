package upgrade

import (
	"time"

	"github.com/nodehitch/nodehitch/agent/state"
)

// recordFile is the record in the state directory.
const recordFile = "upgrade.json"

// maxRefused is how many refused builds are remembered, the latest ones.
const maxRefused = 16

// Record is the upgrade in progress, or how the last one was rolled back, and the builds
// that are refused. The old build writes it before it renames the new one over itself, so
// a new build never runs without it. A reader ignores members that it does not know.
type Record struct {
	From Build `json:"from,omitzero"`
	To   Build `json:"to,omitzero"`
	// Deadline is for people; Until is what counts.
	Deadline time.Time `json:"deadline,omitzero"`
	Until    moment    `json:"until,omitzero"`
	// ProbationSeconds is how long the new build may take until it is healthy.
	ProbationSeconds int `json:"probationSeconds,omitempty"`
	// Starts of the new build in this boot, and Boots since the switch.
	Starts int `json:"starts,omitempty"`
	Boots  int `json:"boots,omitempty"`
	// Extended says that the deadline was put off once, see Guard.
	Extended bool `json:"extended,omitempty"`
	// Before is what the old build had reached.
	Before []expectation `json:"before,omitempty"`

	// Outcome is RolledBack or RolledBackUnjudged, "" while the upgrade is open.
	Outcome string `json:"outcome,omitempty"`
	Message string `json:"message,omitempty"`
	// Unjudged counts the roll-backs of To that nobody could judge; it is not tried again
	// before RetryAt.
	Unjudged int       `json:"unjudged,omitempty"`
	RetryAt  time.Time `json:"retryAt,omitzero"`

	Refused []refusal `json:"refused,omitempty"`
}

// refusal is a build that is never started again, and why.
type refusal struct {
	Build
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// open reports whether a switch has begun that is neither confirmed nor taken back.
func (r *Record) open() bool { return r.To.SHA256 != "" && r.Outcome == "" }

// probation is the time that the new build has.
func (r *Record) probation() time.Duration { return time.Duration(r.ProbationSeconds) * time.Second }

// refused is why a build is refused, nil if it is not.
func (r *Record) refused(sha256 string) *refusal {
	for i := range r.Refused {
		if r.Refused[i].SHA256 == sha256 {
			return &r.Refused[i]
		}
	}
	return nil
}

// refuse remembers the build.
func (r *Record) refuse(b Build, message string, at time.Time) {
	r.Refused = append(r.Refused, refusal{Build: b, Message: message, At: at})
	r.Refused = r.Refused[max(0, len(r.Refused)-maxRefused):]
}

// load reads the record, the zero value if there is none. *state.Damaged if it is no
// record.
func load(d *state.Directory) (Record, error) {
	var r Record
	_, err := d.ReadJSON(recordFile, &r)
	return r, err
}

// save writes the record durably.
func save(d *state.Directory, r Record) error { return d.WriteJSON(recordFile, r) }

// forget ends the upgrade: what is left of the record are the refused builds. The copy of
// the identity goes with it.
func forget(d *state.Directory, r Record) error {
	if err := dropIdentity(d); err != nil {
		return err
	}
	if len(r.Refused) == 0 {
		return d.Remove(recordFile)
	}
	return save(d, Record{Refused: r.Refused})
}
