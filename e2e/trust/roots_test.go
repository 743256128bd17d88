package trust

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	controlleretcd "github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Files that were joined without a line break, or that have a byte order mark, lose certificates in
// Go's own readers.
func TestEveryRootOfAFileIsTrusted(t *testing.T) {
	results.Begin(t, "trust", "roots in one file", "every root of a file is trusted that was joined without a line break or has a byte order mark")
	ours, other := testca.Root(t, "ours"), testca.Root(t, "other")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ours.Server(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	server.Config.ErrorLog = testca.Quiet
	server.StartTLS()
	t.Cleanup(server.Close)
	joined, marked := strings.TrimSpace(string(ours.PEM()))+string(other.PEM()), "\ufeff"+string(ours.PEM())
	for name, each := range map[string]struct {
		roots string
		ask   func(*testing.T, string, string) error
		// refused is what is said of roots that are not used, "" if they are.
		refused string
	}{
		"agent/machine/etcd, joined": {joined, etcdOfAgent, ""},
		"agent/machine/etcd, marked": {marked, etcdOfAgent, ""},
		"controller/etcd, joined":    {joined, etcdOfController, ""},
		"controller/etcd, marked":    {marked, etcdOfController, ""},
		"shared/client, joined":      {joined, controllerOfClient, "expected the root alone"},
		"shared/client, marked":      {marked, controllerOfClient, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := each.ask(t, server.URL, each.roots)
			if each.refused == "" && err != nil || each.refused != "" && (err == nil || !strings.Contains(err.Error(), each.refused)) {
				t.Errorf("%v, expected %q", err, each.refused)
			}
		})
	}
}

func etcdOfAgent(t *testing.T, url, roots string) error {
	pair := testca.Root(t, "clients").Issue(t, &x509.Certificate{NotAfter: time.Now().Add(time.Hour)})
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	m := hosttest.New()
	for file, content := range map[string]string{"ca.crt": roots, "healthcheck-client.crt": string(testca.Encode(pair.Certificate[0])),
		"healthcheck-client.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))} {
		m.Files["/etc/kubernetes/pki/etcd/"+file] = hosttest.FileState{Content: content, Mode: 0o600}
	}
	c, err := (&etcd.Access{Host: m.Host(), Endpoint: url}).Open()
	if err != nil {
		return err
	}
	_, err = c.Members(t.Context())
	return err
}

func etcdOfController(t *testing.T, url, roots string) error {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(roots), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := controlleretcd.Files{CA: file}.TLS()
	if err != nil {
		return err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func controllerOfClient(t *testing.T, url, roots string) error {
	c, err := client.New(client.Options{BaseURL: url, RootPEM: []byte(roots)})
	if err != nil {
		return err
	}
	return client.Done(c.GetHealthz(t.Context()))
}
