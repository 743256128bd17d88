package store

import (
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// AgentRollout is which agent the nodes shall have. The zero value wants none. Who has been
// told is on record at each node (AgentOffer), so that any controller can continue.
type AgentRollout struct {
	Version string `json:"version,omitempty"`
	// ByName: an operator asked for the version by its name, so that nodes are downgraded too.
	ByName bool `json:"byName,omitempty"`
	// Controller is the version of the controller that began it. One of another version begins
	// its own, if it is to do so without being asked.
	Controller string    `json:"controller,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	StartedBy  string    `json:"startedBy,omitempty"`
	// Wave is how many waves have begun.
	Wave int `json:"wave,omitempty"`
	// CompletedAt is when, after the last wave, no node was left to wait for; zero before.
	CompletedAt time.Time `json:"completedAt,omitzero"`
	// Paused is an operator's word, Stopped a roll-back; nil for none. Either ends with an
	// operator's word.
	Paused  *RolloutHalt `json:"paused,omitempty"`
	Stopped *RolloutHalt `json:"stopped,omitempty"`
}

// RolloutHalt is why no further node is told.
type RolloutHalt struct {
	At time.Time `json:"at"`
	// By is the operator, or the node that rolled the version back.
	By string `json:"by"`
	// Message is what the node says.
	Message string `json:"message,omitempty"`
}

// Halted reports whether no further node is told for now.
func (r AgentRollout) Halted() bool { return r.Paused != nil || r.Stopped != nil }

// AgentOffer is the agent that a node is told to become.
type AgentOffer struct {
	api.WantedAgent
	Wave int       `json:"wave"`
	At   time.Time `json:"at"`
	// Answered: the agent has reported another state of its upgrade since. What it said before
	// may have been about another build of the same version.
	Answered bool `json:"answered,omitempty"`
	// OverAt is when it was over, zero before: the node had become it and was healthy, or had
	// gone back and was well.
	OverAt time.Time `json:"overAt,omitzero"`
	// GivenUp: the node refuses it, and an operator went on without the node.
	GivenUp bool `json:"givenUp,omitempty"`
}

// AgentRollout is the present one.
func (t *Tx) AgentRollout() (AgentRollout, error) {
	r, _, err := getMeta[AgentRollout](t.reader, metaRollout)
	return r, err
}

// PutAgentRollout writes it.
func (t *Tx) PutAgentRollout(r AgentRollout) error {
	if t.writer == nil {
		return errReadOnly
	}
	if _, known := t.before[bucketMeta][metaRollout]; !known {
		t.noted(bucketMeta, metaRollout, valueBefore{value: t.reader.get(bucketMeta, metaRollout)})
	}
	return putMeta(t.writer, metaRollout, r)
}

// AgentRolloutChange is the rollout before the transaction and now, nil if it has not changed.
func (t *Tx) AgentRolloutChange() (*Change[AgentRollout], error) {
	before, noted := t.before[bucketMeta][metaRollout]
	if !noted {
		return nil, nil
	}
	change, err := of[AgentRollout](t, bucketMeta).change(metaRollout, before)
	if err != nil || change == nil {
		return nil, err
	}
	if change.Before == nil {
		change.Before = new(AgentRollout)
	}
	return change, nil
}

// BeginsEpoch reports whether a commit that a store follows has begun another epoch.
func (t *Tx) BeginsEpoch() bool {
	_, noted := t.before[bucketMeta][metaEpoch]
	return noted
}
