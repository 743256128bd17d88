package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Events is what one transaction has changed of one VNF instance. Each event has a sequence:
// that of the record for the first one, one more for each that follows.
type Events struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
	// PrunedTo is the sequence of the last event before these, if that is no longer kept.
	PrunedTo int64   `json:"prunedTo,omitempty"`
	Events   []Event `json:"events"`
}

// Event is api.Event without what its record says of all of them.
type Event struct {
	Type        api.EventType `json:"type"`
	NodeID      string        `json:"nodeId,omitempty"`
	NodeName    string        `json:"nodeName,omitempty"`
	VolumeID    string        `json:"volumeId,omitempty"`
	OperationID string        `json:"operationId,omitempty"`
	TokenID     string        `json:"tokenId,omitempty"`
	TokenName   string        `json:"tokenName,omitempty"`
	Generation  int64         `json:"generation,omitempty"`
	Condition   string        `json:"condition,omitempty"`
	From        string        `json:"from,omitempty"`
	To          string        `json:"to,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	Message     string        `json:"message,omitempty"`
	BootedAt    *time.Time    `json:"bootedAt,omitempty"`
}

// Events by EventsKey.
func (t *Tx) Events() Collection[Events] { return of[Events](t, bucketEvents) }

// EventsKey orders the events of an instance by sequence. The empty id is that of what is of no
// instance: tokens, the upgrade of agents, the state, volumes that no instance has.
func EventsKey(instanceID string, sequence int64) string {
	return fmt.Sprintf("%s%016d", InstancePrefix(instanceID), sequence)
}

// SaidKey is EventsKey of what a node has said. These records come before the others of their
// instance.
func SaidKey(instanceID string, sequence int64) string {
	return fmt.Sprintf("%s+%016d", InstancePrefix(instanceID), sequence)
}

// ParseEventsKey is the instance and the sequence of a key.
func ParseEventsKey(key string) (instanceID string, sequence int64, err error) {
	instanceID, number, _ := strings.Cut(key, "/")
	if sequence, err = strconv.ParseInt(number, 10, 64); err != nil {
		err = &CorruptError{Bucket: bucketEvents, Key: key, Err: err}
	}
	return instanceID, sequence, err
}

// By says who causes what the transaction changes.
func (t *Tx) By(who string) { t.by = who }

// Who is what By was told last, "" for nothing.
func (t *Tx) Who() string { return t.by }

// Told is an event that no record shows, of an instance or of none ("").
type Told struct {
	InstanceID string
	Event      Event
}

// Tell adds an event that no record shows. It is for what is in memory only; all other events
// follow from the records that the transaction changes.
func (t *Tx) Tell(instanceID string, e Event) { t.told = append(t.told, Told{instanceID, e}) }

// Told is what Tell was given, in order.
func (t *Tx) Told() []Told { return t.told }
