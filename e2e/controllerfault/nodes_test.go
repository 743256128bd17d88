package controllerfault

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (w *work) enrol(m *machine) {
	w.step("enrol "+m.server, nil, func() error {
		token, err := client.Read[api.JoinToken](w.c.API.GetJoinToken(w.t.Context(), instance))
		if err != nil {
			return err
		}
		return m.enrol(token.Token)
	}, facts{m.server + " is let in": m.opens})
}

// converges: the machine reports that it is ready for its document.
func (w *work) converges(m *machine) {
	w.reports++
	var digest string
	w.step("report of "+m.server, nil, func() (err error) { digest, err = m.report(); return err }, facts{
		fmt.Sprintf("report %d is there", w.reports): func() error {
			n, err := client.Read[api.Node](w.c.API.GetNode(w.t.Context(), m.server))
			if err == nil && (n.Status == nil || n.Status.AppliedDigest == "" || digest == "") {
				err = fmt.Errorf("its status is %+v", n.Status)
			}
			return err
		}})
}

func (w *work) permit(states ...api.PermitState) func() error {
	return func() error {
		v, err := client.Read[api.Volume](w.c.API.GetVolume(w.t.Context(), volume))
		if err != nil {
			return err
		}
		for _, state := range states {
			if v.PermitState == state {
				return nil
			}
		}
		return fmt.Errorf("its permit is %s", v.PermitState)
	}
}

// formats is the whole exchange.
func (w *work) formats(m *machine, proof *api.BlankProof, over ...string) {
	const granted, started, formatted = "the permit is granted", "the format is started", "the volume is formatted"
	w.step("format wanted", over, func() error { return m.format(api.FormatWanted, proof) }, facts{granted: w.permit(api.PermitGranted)})
	w.step("format started", []string{granted}, func() error { return m.format(api.FormatStarted, nil) }, facts{started: w.permit(api.PermitStarted)})
	w.step("formatted", []string{started}, func() error { return m.format(api.FormatFormatted, nil) }, facts{formatted: w.permit(api.PermitFormatted)})
}
