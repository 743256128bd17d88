package permit

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
)

// history is what the world outside has seen of one volume.
type history struct {
	permits  []string          // every permit that was ever answered
	begun    map[string]string // permits whose start was acknowledged, and to whom
	license  map[string]bool   // those of them since the operator's last word
	adopted  bool              // the operator's last word was adopt
	reformat int
}

// Whatever messages come in whatever order, late, again or from the wrong server,
// whichever servers go and come back, and however often the controller restarts:
// between two words of an operator at most one permit is ever used, by one server,
// and none at all after an adoption.
func TestAVolumeIsFormattedOnce(t *testing.T) {
	w := newWorld(t)
	nodes := []string{alpha, beta, "3f0c1d52-cccc-4000-8000-000000000003"}
	rapid.Check(t, func(r *rapid.T) {
		h := &history{begun: map[string]string{}, license: map[string]bool{}}
		for _, node := range nodes {
			w.enroll(node)
		}
		w.volume(volume, func(v *store.Volume) {
			*v = store.Volume{ID: volume, FilesystemUUID: api.FilesystemUUID(volume), Epoch: w.Store.Epoch()}
		})
		w.attach(alpha)
		node := rapid.SampledFrom(nodes)
		known := func(r *rapid.T) string {
			if len(h.permits) == 0 {
				return ""
			}
			return rapid.SampledFrom(h.permits).Draw(r, "permit")
		}
		send := func(node string, m api.FormatReport) {
			m.FilesystemUUID = w.get().FilesystemUUID
			p, err := w.report(node, m)
			if err != nil {
				return
			}
			h.permits = append(h.permits, p.Permit)
			if m.Phase == api.FormatStarted {
				h.start(r, p.Permit, node)
			}
			if p.Overwrite && h.reformat == 0 {
				r.Fatalf("an overwrite that no operator asked for")
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"wanted":            func(r *rapid.T) { send(node.Draw(r, "by"), wanted()) },
			"wanted, not blank": func(r *rapid.T) { send(node.Draw(r, "by"), notBlank()) },
			"started":           func(r *rapid.T) { send(node.Draw(r, "by"), started(known(r))) },
			"formatted":         func(r *rapid.T) { send(node.Draw(r, "by"), formatted(known(r))) },
			"a whole attempt": func(r *rapid.T) {
				by := w.get().NodeID
				if p, err := w.report(by, wanted()); err == nil {
					h.permits = append(h.permits, p.Permit)
					send(by, started(p.Permit))
					if rapid.Bool().Draw(r, "to its end") {
						send(by, formatted(p.Permit))
					}
				}
			},
			"the volume moves":        func(r *rapid.T) { w.attach(node.Draw(r, "to")) },
			"a server goes":           func(r *rapid.T) { w.gone(node.Draw(r, "which")) },
			"a server comes":          func(r *rapid.T) { w.enroll(node.Draw(r, "which")) },
			"the controller restarts": func(*rapid.T) { w.restart() },
			"a new epoch": func(r *rapid.T) {
				if _, err := w.Store.BeginEpoch(store.NewEpoch{}); err != nil {
					r.Fatal(err)
				}
			},
			"reformat": func(*rapid.T) {
				if _, err := w.Reformat(background, volume, volume); err == nil {
					h.reformat++
					h.license, h.adopted = map[string]bool{}, false
				}
			},
			"adopt": func(*rapid.T) {
				if _, err := w.Adopt(background, volume, existing); err == nil {
					h.license, h.adopted = map[string]bool{}, true
				}
			},
		})
		if len(h.begun) > 1+h.reformat {
			r.Fatalf("%d permits were used and %d reformats confirmed", len(h.begun), h.reformat)
		}
	})
}

// start records that the start of a format was acknowledged.
func (h *history) start(r *rapid.T, permit, node string) {
	if by, again := h.begun[permit]; again && by != node {
		r.Fatalf("one permit is used by %s and %s", by, node)
	}
	h.begun[permit], h.license[permit] = node, true
	if h.adopted {
		r.Fatalf("%s formats an adopted volume", node)
	}
	if len(h.license) > 1 {
		r.Fatalf("two permits of one volume are used: %v", h.license)
	}
}
