package upgrade

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Any answer of a server of the pinned root counts, and no other server's.
func TestWhoAnswersTheGuard(t *testing.T) {
	root, other := testca.Root(t, "root"), testca.Root(t, "other")
	serve := func(from testca.Authority, status int) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{from.Server(t, time.Now().Add(time.Hour), "127.0.0.1")}}
		s.Config.ErrorLog = testca.Quiet
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL
	}
	const nobody = "https://127.0.0.1:1"
	for name, c := range map[string]struct {
		urls []string
		want bool
	}{
		"the controller":        {[]string{nobody, serve(root, http.StatusOK)}, true},
		"one with a full disk":  {[]string{serve(root, http.StatusServiceUnavailable), nobody}, true},
		"nobody":                {[]string{nobody}, false},
		"another root's server": {[]string{serve(other, http.StatusOK)}, false},
		"no URL":                {nil, false},
	} {
		o := link.Options{URLs: c.urls, RootPEM: root.PEM(), Pin: client.Pin(root.Cert)}
		if got := Answers(t.Context(), o); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
