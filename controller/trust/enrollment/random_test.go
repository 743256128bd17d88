package enrollment

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Whatever is asked for in whatever order and whichever answers are lost: never
// are more than two certificates of a server good, only one once the newest has
// been used, and none after a revocation.
func TestIdentitiesUnderRandomLosses(t *testing.T) {
	w := newWorld(t)
	token := w.token(instance)
	rapid.Check(t, func(r *rapid.T) {
		w.update(func(tx *store.Tx) error {
			return tx.Nodes().Put(server, store.Node{ID: server, InstanceID: instance, Expected: true, Epoch: w.Store.Epoch()})
		})
		m := w.boot(server)
		var all []*machine // everything that was ever issued, each with its certificate
		keep := func(err error) {
			if err == nil {
				issued := *m
				all = append(all, &issued)
			}
		}
		revoked := false
		r.Repeat(map[string]func(*rapid.T){
			"enroll": func(*rapid.T) {
				keep(m.enrollWith(token))
				revoked = revoked && !w.node(server).Identity.Live()
			},
			"enroll with a new key": func(*rapid.T) {
				key := m.key
				m.key = testca.NewKey()
				if err := m.enrollWith(token); err == nil {
					keep(nil)
					revoked = false
				} else {
					m.key = key
				}
			},
			"renew": func(r *rapid.T) {
				if len(all) == 0 {
					return
				}
				with := rapid.SampledFrom(all).Draw(r, "with")
				keep(m.renew(with.chain, rapid.Bool().Draw(r, "lost")))
			},
			"use": func(r *rapid.T) {
				if len(all) > 0 {
					_ = m.call(rapid.SampledFrom(all).Draw(r, "certificate").chain, false)
				}
			},
			"revoke":   func(*rapid.T) { wantOK(t, w.Revoke(context.Background(), server, "test")); revoked = true },
			"reenroll": func(*rapid.T) { wantOK(t, w.Reenroll(context.Background(), server)); revoked = true },
			"wait": func(r *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(r, "hours")) * time.Hour)
			},
			"": func(r *rapid.T) {
				identity := w.node(server).Identity
				good := 0
				err := w.Store.View(func(tx *store.Tx) error {
					seen := map[string]bool{}
					for _, issued := range all {
						if _, err := w.current(tx, server, issued.serial); err == nil && !seen[issued.serial] {
							seen[issued.serial] = true
							good++
						}
					}
					return nil
				})
				wantOK(t, err)
				switch {
				case good > 2:
					r.Fatalf("%d certificates are good", good)
				case revoked && good != 0:
					r.Fatalf("%d certificates are good after a revocation", good)
				case identity.Live() && identity.PreviousSerial == "" && good > 1:
					r.Fatalf("%d certificates are good after the newest was used", good)
				}
			},
		})
	})
}

// 2,000 agents that poll are some 70 requests a second.
func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b)
	m := w.boot(server)
	wantOK(b, m.enroll())
	w.update(func(tx *store.Tx) error {
		node, _, err := tx.Nodes().Get(server)
		node.Config = make([]byte, 4096)
		return errors.Join(err, tx.Nodes().Put(server, node))
	})
	for b.Loop() {
		wantOK(b, m.call(m.chain, false))
	}
}
