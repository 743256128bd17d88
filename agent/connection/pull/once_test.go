package pull

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/connection/link"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// A controller that is killed cuts the polls of all its agents at one moment.
func TestAPollThatIsCutIsNotSentAgainByItself(t *testing.T) {
	root := testca.Root(t, "root")
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		if r.ContentLength != 0 || len(r.TransferEncoding) != 0 {
			t.Errorf("the poll has a body: %d %v", r.ContentLength, r.TransferEncoding)
		}
		w.WriteHeader(http.StatusNotModified)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{root.Intermediate(t).Server(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	server.Config.ErrorLog = testca.Quiet
	server.StartTLS()
	defer server.Close()
	l, err := link.New(link.Options{URLs: []string{server.URL}, RootPEM: testca.Encode(root.Cert.Raw), Pin: client.Pin(root.Cert)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Poll(t.Context(), l, Request{Limit: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := Poll(t.Context(), l, Request{Limit: time.Minute}); err == nil {
		t.Error("the poll that was cut succeeded")
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the controller was asked %d times by 2 polls", n)
	}
}
