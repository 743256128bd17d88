package ui_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodehitch/nodehitch/controller/ui"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/shared/api"
)

// busy is a store that answers when it is let, and has one token.
type busy struct {
	ui.Nodes
	asked   atomic.Int64
	let     chan struct{}
	revoked atomic.Bool
}

func (b *busy) ListNodes(context.Context, string, bool) ([]api.Node, error) {
	b.asked.Add(1)
	<-b.let
	return nil, nil
}

func (b *busy) Verify(ctx context.Context, _ string) (api.Token, error) { return b.Find(ctx, "t") }

var errRevoked = errors.New("revoked")

func (b *busy) Find(_ context.Context, id string) (api.Token, error) {
	if b.revoked.Load() {
		return api.Token{}, errRevoked
	}
	return api.Token{ID: id}, nil
}

// However many pages are asked for, half of the processors make them. Who gives up, or whose token is
// revoked meanwhile, gets none.
func TestHalfOfTheProcessorsMakePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &busy{let: make(chan struct{})}
		u := ui.New(ui.Options{Nodes: store, Tokens: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), MAC: func(string, []byte) []byte { return []byte("mac") }})
		serve := func(ctx context.Context, method, path, cookie, form string) (http.Header, error) {
			routes := u.Routes()
			route := routes[slices.IndexFunc(routes, func(r ui.Route) bool { return r.Path == path && r.Method == method })]
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Cookie", cookie)
			err := route.Serve(w, r, ui.Session{})
			return w.Header(), err
		}
		signedIn, err := serve(t.Context(), http.MethodPost, page.PathSignIn, "", url.Values{"token": {"t"}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		most := max(1, runtime.GOMAXPROCS(0)/2)
		var answered, refused, gaveUp atomic.Int64
		ctx, giveUp := context.WithCancel(t.Context())
		for i := range 3 * most {
			if i == most {
				synctest.Wait() // the first have their turn
			}
			of := t.Context()
			if i >= 2*most {
				of = ctx
			}
			go func() {
				switch _, err := serve(of, http.MethodGet, page.PathNodes, signedIn.Get("Set-Cookie"), ""); {
				case err == nil:
					answered.Add(1)
				case errors.Is(err, errRevoked):
					refused.Add(1)
				case errors.Is(err, context.Canceled):
					gaveUp.Add(1)
				}
			}()
		}
		synctest.Wait()
		if n := int(store.asked.Load()); n != most {
			t.Errorf("%d pages are made at a time, expected %d", n, most)
		}
		giveUp()
		synctest.Wait()
		store.revoked.Store(true)
		close(store.let)
		synctest.Wait()
		if n := int64(most); answered.Load() != n || refused.Load() != n || gaveUp.Load() != n {
			t.Errorf("%d were answered, %d refused, %d gave up; expected %d each", answered.Load(), refused.Load(), gaveUp.Load(), most)
		}
	})
}
