package httpapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/recentlog"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	instanceID = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
	serverID   = "3f0c1d52-0000-4000-8000-000000000001"
	volumeID   = "4a0d7f3e-0000-4000-8000-000000000002"
	password   = "s3cr3t-of-the-VM"
	proxyLogin = "http://user1:proxy-Passw0rd@host1:port1"
)

// spec is a cluster with its storage server alone in the topology.
const spec = `{
  "stackId": "stack-1",
  "vimConnectionInfo": [{"accessInfo": {"password": "vim-Passw0rd"}}],
  "topology": {"stackId": "stack-1", "stackStatus": "CREATE_COMPLETE",
    "servers": [{"id": "` + serverID + `", "name": "storage_server", "volumeIds": ["` + volumeID + `"],
      "connectionPoints": [{"name": "storage_server_CP", "addresses": ["10.10.0.5"]}]}],
    "volumes": [{"resourceId": "storage_server_volume", "id": "` + volumeID + `", "sizeBytes": 1073741824}]},
  "additionalParams": {"k8s_cluster_installation_param": {
    "script_path": "Scripts/install_k8s_cluster.sh",
    "master_node": {"aspect_id": "master_instance", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1",
      "username": "ubuntu", "password": "` + password + `", "cluster_cp_name": "masterNode_CP1"},
    "worker_node": {"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2"},
    "proxy": {"http_proxy": "` + proxyLogin + `"},
    "storage_server": {"ssh_cp_name": "storage_server_CP",
      "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
      "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": "10.10.0.0/24"}]}}}}`

// world is a controller on loopback, with the real services behind it.
type world struct {
	*controllertest.Controller
	t       testing.TB
	dir     string
	url     string
	socket  string
	log     controllertest.Log
	handler *httpapi.Handler
	server  *http.Server
	// ahead is how much the clock is put forward.
	ahead atomic.Int64
	// operator, viewer and tacker are API tokens.
	operator, viewer, tacker string
	client                   *http.Client
}

type option func(*httpapi.Options)

func pollSeconds(n int) option { return func(o *httpapi.Options) { o.PollSeconds = n } }

func newWorld(t testing.TB, options ...option) *world {
	t.Helper()
	w := &world{t: t}
	w.Controller = controllertest.New(t, controllertest.Options{Now: w.now,
		Log: slog.New(recentlog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))})
	w.dir = w.Config.DataDirectory
	o := w.API(func() int { return 7 })
	for _, option := range options {
		option(&o)
	}
	var err error
	w.handler, err = httpapi.New(o)
	w.must(err)
	for scope, secret := range map[wire.Scope]*string{wire.ScopeOperator: &w.operator, wire.ScopeViewer: &w.viewer, wire.ScopeTacker: &w.tacker} {
		token, err := w.Tokens.Create(context.Background(), wire.TokenRequest{Name: string(scope), Scope: scope})
		w.must(err)
		*secret = token.Secret
	}
	t.Cleanup(w.answersAreDeclared)
	w.listen()
	w.client = w.clientWith(nil)
	return w
}

var answered = regexp.MustCompile(`msg=request operation=(\w+) status=(\d+)`)

// answersAreDeclared compares each answer that the world has given with the document: its default
// is for what stands between client and controller, and for statuses of a later release.
func (w *world) answersAreDeclared() {
	document, err := httpapi.Document()
	w.must(err)
	declared := map[string]bool{}
	for _, item := range document.Paths.Map() {
		for _, op := range item.Operations() {
			for status := range op.Responses.Map() {
				declared[op.OperationID+" "+status] = true
			}
		}
	}
	for _, a := range answered.FindAllStringSubmatch(w.log.String(), -1) {
		if !declared[a[1]+" "+a[2]] {
			w.t.Errorf("%s was answered with %s, which openapi.yaml does not declare for it", a[1], a[2])
		}
	}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// listen serves on TCP with TLS, and on a unix socket.
func (w *world) listen() {
	w.server = w.handler.HTTPServer()
	var serving sync.WaitGroup
	tcp, err := new(net.ListenConfig).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	w.must(err)
	w.socket = filepath.Join(w.dir, "controller.sock")
	unix, err := new(net.ListenConfig).Listen(w.t.Context(), "unix", w.socket)
	w.must(err)
	for _, l := range []net.Listener{tls.NewListener(tcp, w.Authority.TLSConfig()), unix} {
		serving.Go(func() { _ = w.server.Serve(l) })
	}
	w.url = "https://" + tcp.Addr().String()
	w.t.Cleanup(func() {
		w.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := httpapi.Shutdown(ctx, w.server); err != nil {
			w.t.Error(err)
		}
		serving.Wait()
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// clientWith is a client that trusts the controller, with a client certificate if
// there is one.
func (w *world) clientWith(certificate *tls.Certificate) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.Authority.RootPEM()))
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if certificate != nil {
		c.Certificates = []tls.Certificate{*certificate}
	}
	transport := &http.Transport{TLSClientConfig: c}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// local is a client on the unix socket.
func (w *world) local() *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.socket)
	}, DisableKeepAlives: true}
	return &http.Client{Transport: transport}
}

// answer is a response that has been read.
type answer struct {
	status  int
	closes  bool // the connection
	header  http.Header
	body    string
	problem wire.Problem
}

// call makes a request; headers are "Name: value".
func (w *world) call(client *http.Client, method, path, body string, headers ...string) answer {
	w.t.Helper()
	a, err := w.try(context.Background(), client, method, path, body, headers...)
	w.must(err)
	return a
}

func (w *world) try(ctx context.Context, client *http.Client, method, path, body string, headers ...string) (answer, error) {
	base := w.url
	if _, tcp := client.Transport.(*http.Transport); tcp && client.Transport.(*http.Transport).TLSClientConfig == nil {
		base = "http://controller"
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, closes: response.Close, header: response.Header, body: string(text)}
	if method != http.MethodHead && response.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(text, &a.problem); err != nil {
			return a, err
		}
		if !strings.HasPrefix(a.problem.Type, wire.ProblemPrefix) {
			return a, fmt.Errorf("%s %s: a problem without a type of its own: %s", method, path, text)
		}
	}
	return a, err
}

// as calls with a bearer token.
func (w *world) as(token, method, path, body string, headers ...string) answer {
	w.t.Helper()
	return w.call(w.client, method, path, body, append([]string{"Authorization: Bearer " + token}, headers...)...)
}

// ok is an answer that has to have this status, decoded into v.
func (w *world) ok(a answer, status int, v any) {
	w.t.Helper()
	if a.status != status {
		w.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if v != nil {
		w.must(json.Unmarshal([]byte(a.body), v))
	}
}

// putInstance makes the instance of spec.
func (w *world) putInstance() {
	w.t.Helper()
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, spec), http.StatusCreated, nil)
}

// enroll makes the instance and enrolls its storage server.
func (w *world) enroll() (client *http.Client, joinToken string) {
	w.t.Helper()
	w.putInstance()
	var join wire.JoinToken
	w.ok(w.as(w.operator, "GET", "/v1/vnf_instances/"+instanceID+"/join_token", ""), http.StatusOK, &join)
	return w.redeem(join, serverID), join.Token
}

// redeem enrolls a server.
func (w *world) redeem(join wire.JoinToken, serverID string) *http.Client {
	w.t.Helper()
	key := testca.NewKey()
	body, err := json.Marshal(wire.EnrollRequest{ServerID: serverID, CertificateRequest: testca.Request(key, nil)})
	w.must(err)
	var issued wire.IssuedCertificate
	w.ok(w.as(join.Token, "POST", "/v1/enroll", string(body)), http.StatusCreated, &issued)
	identity, err := testca.Identity(issued.Certificate, key)
	w.must(err)
	return w.clientWith(&identity)
}

// pemOf is chain and key in PEM.
func pemOf(t testing.TB, c tls.Certificate) (chain, key []byte) {
	t.Helper()
	for _, der := range c.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// write puts a file into the world's directory.
func (w *world) write(name, content string) {
	w.t.Helper()
	w.must(os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600))
}
