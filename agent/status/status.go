// Package status is the agent's present state: the node status that it reports, and its
// contact with the controller. The daemon writes it to a file, so that it can be read
// without the controller.
package status

import (
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// DefaultFile is the daemon's status file. It is in memory (/run) and outlives
// the daemon, not the machine.
const DefaultFile = "/run/nodehitch/agent-status.json"

// Status is the content of the status file. It contains no secret.
type Status struct {
	AgentVersion string    `json:"agentVersion"`
	PID          int       `json:"pid"`
	StartedAt    time.Time `json:"startedAt"`
	// StoppedAt is set after the daemon has stopped cleanly.
	StoppedAt *time.Time `json:"stoppedAt,omitempty"`

	NodeID         string `json:"nodeId,omitempty"`
	IdentitySource string `json:"identitySource,omitempty"`
	// Problem is why the agent as a whole cannot go on, "" if it can.
	Problem string `json:"problem,omitempty"`
	// Unsaved is why the document in force could not be saved as the last known good.
	Unsaved    string         `json:"unsavedReason,omitempty"`
	Controller Controller     `json:"controller"`
	Origin     Origin         `json:"documentFrom,omitempty"`
	Role       api.Role       `json:"role,omitempty"`
	Node       api.NodeStatus `json:"node"`
}

// Origin is where the document in force comes from.
type Origin string

// The origins of documents.
const (
	FromController Origin = "controller"
	FromDisk       Origin = "disk" // the last one that was applied
)

// Controller is the state of the contact with the controller.
type Controller struct {
	// URL is the address in use, URLs are all, in the order in which they are tried.
	URL  string   `json:"url,omitempty"`
	URLs []string `json:"urls,omitempty"`
	// Connected says that the last call succeeded.
	Connected   bool       `json:"connected"`
	LastContact *time.Time `json:"lastContact,omitempty"`
	// LastError and NextAttempt are set while not connected.
	LastError   string     `json:"lastError,omitempty"`
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`
	// Waiting is what the current enrollment waits for; no secret.
	Waiting string `json:"waiting,omitempty"`
	// HoldSeconds is the longest hold time of polls if the network allows less than the
	// controller's; else 0.
	HoldSeconds         int        `json:"maxPollSeconds,omitempty"`
	CertificateSerial   string     `json:"certificateSerial,omitempty"`
	CertificateNotAfter *time.Time `json:"certificateNotAfter,omitempty"`
	// Damaged says why the identity on disk cannot be used.
	Damaged string `json:"identityDamage,omitempty"`
	// Wanted is the agent that the controller wants here; nil if it does not say.
	Wanted *api.WantedAgent `json:"wantedAgent,omitempty"`
	// Learned are those of URLs that are not in agent.yaml.
	Learned []string `json:"learnedUrls,omitempty"`
	// RenewalError is why the last attempt to renew the certificate failed.
	RenewalError string `json:"renewalError,omitempty"`
}

// Summary is one line for people: what the agent does, or why it waits.
func (s *Status) Summary() string {
	ready := s.Node.Condition(api.ConditionReady)
	switch {
	case s.Problem != "":
		return "stopped: " + s.Problem
	case s.Node.Activity != nil:
		return s.Node.Activity.Condition + ": " + s.Node.Activity.Summary
	case ready == nil && s.Controller.CertificateSerial == "" && s.Controller.Waiting != "":
		return "not enrolled: " + s.Controller.Waiting
	case ready == nil && s.Controller.CertificateSerial == "":
		return orElse(s.Controller.LastError, "not enrolled, finding the controller", "not enrolled: ")
	case ready == nil:
		return orElse(s.Controller.LastError, "waiting for the first configuration", "no configuration yet: ")
	case ready.Status != api.ConditionTrue:
		return "not ready: " + s.blocking(ready)
	case !s.Controller.Connected && s.Controller.LastError != "":
		return fmt.Sprintf("ready (generation %d), without a controller: %s", s.Node.AppliedGeneration, s.Controller.LastError)
	}
	return fmt.Sprintf("ready (generation %d)", s.Node.AppliedGeneration)
}

// blocking is the first condition that is not True, with its message.
func (s *Status) blocking(ready *api.Condition) string {
	for _, c := range s.Node.Conditions {
		if c.Type != api.ConditionReady && c.Status != api.ConditionTrue {
			return fmt.Sprintf("%s: %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	return ready.Reason + ": " + ready.Message
}

func orElse(text, absent, prefix string) string {
	if text == "" {
		return absent
	}
	return prefix + text
}
