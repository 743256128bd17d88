package controllerfault

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (w *work) enroll(m *machine) {
	w.step("enroll "+m.ServerID, nil, func() error {
		token, err := client.Read[api.JoinToken](w.c.API.GetJoinToken(w.t.Context(), instance))
		if err != nil {
			return err
		}
		return m.enroll(token.Token)
	}, facts{m.ServerID + " is accepted": kept(func() int { return len(m.Identity.Certificate) }, m.isAccepted)})
}

func reportOf(server string) string { return "the report of " + server + " is there" }

// converges: the machine reports that it is ready for its document.
func (w *work) converges(m *machine) {
	name := reportOf(m.ServerID)
	var over []string
	if _, before := w.ledger[name]; before {
		over = []string{name}
	}
	var sent api.NodeStatus
	w.step("report of "+m.ServerID, over, func() (err error) { sent, err = m.report(); return err }, facts{
		name: kept(func() int { return len(comparable(sent)) }, func() error {
			n, err := client.Read[api.Node](w.c.API.GetNode(w.t.Context(), m.ServerID, nil))
			if err != nil {
				return err
			}
			if n.Status == nil {
				return errors.New("there is none")
			}
			if diff := cmp.Diff(comparable(sent), comparable(*n.Status)); diff != "" {
				return fmt.Errorf("it differs (-acknowledged +read):\n%s", diff)
			}
			return nil
		})})
}

// comparable is all that a report says but for times: one that says the same again is
// not kept.
func comparable(s api.NodeStatus) string {
	s.Activity = nil
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = time.Time{}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (w *work) permit(states ...api.PermitState) fact {
	return kept(func() int { return len(volume) }, func() error {
		v, err := client.Read[api.Volume](w.c.API.GetVolume(w.t.Context(), volume, nil))
		if err != nil {
			return err
		}
		for _, state := range states {
			if v.PermitState == state {
				return nil
			}
		}
		return fmt.Errorf("its permit is %s", v.PermitState)
	})
}

// formats is the whole exchange.
func (w *work) formats(m *machine, check *api.BlankCheck, over ...string) {
	const granted, started, formatted = "the permit is granted", "the format is started", "the volume is formatted"
	w.step("format wanted", over, func() error { return m.format(api.FormatWanted, check) }, facts{granted: w.permit(api.PermitGranted)})
	w.step("format started", []string{granted}, func() error { return m.format(api.FormatStarted, nil) }, facts{started: w.permit(api.PermitStarted)})
	w.step("formatted", []string{started}, func() error { return m.format(api.FormatFormatted, nil) }, facts{formatted: w.permit(api.PermitFormatted)})
}
