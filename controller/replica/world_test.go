package replica_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	instanceID = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
	serverID   = "3f0c1d52-0000-4000-8000-000000000001"
	volumeID   = "4a0d7f3e-0000-4000-8000-000000000002"
)

const spec = `{
  "stackId": "stack-1",
  "topology": {"stackId": "stack-1", "stackStatus": "CREATE_COMPLETE",
    "servers": [{"id": "` + serverID + `", "name": "storage_server", "volumeIds": ["` + volumeID + `"],
      "connectionPoints": [{"name": "storage_server_CP", "addresses": ["10.10.0.5"]}]}],
    "volumes": [{"resourceId": "storage_server_volume", "id": "` + volumeID + `", "sizeBytes": 1073741824}]},
  "additionalParams": {"k8s_cluster_installation_param": {
    "script_path": "Scripts/install_k8s_cluster.sh",
    "master_node": {"aspect_id": "master_instance", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1",
      "username": "ubuntu", "password": "s3cr3t", "cluster_cp_name": "masterNode_CP1"},
    "worker_node": {"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2"},
    "storage_server": {"ssh_cp_name": "storage_server_CP",
      "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
      "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": "10.10.0.0/24"}]}}}}`

// eventually waits for what another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func listen(t testing.TB) *counted {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	return &counted{Listener: l}
}

// counted counts the connections that it accepts.
type counted struct {
	net.Listener
	accepted atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

// site is what listens for replicas at one of them.
type site struct {
	*replica.Server
	blobs    *files.Blobs
	dir, url string
	listener *counted
}

func newSite(t testing.TB, maxBytes int64) *site {
	t.Helper()
	dir := t.TempDir()
	blobs, err := files.OpenBlobs(dir, maxBytes, time.Now)
	must(t, err)
	return siteOf(t, dir, blobs)
}

func siteOf(t testing.TB, dir string, blobs *files.Blobs) *site {
	t.Helper()
	s := &site{Server: replica.NewServer(trust(t, 1), blobs, slog.New(slog.DiscardHandler)), blobs: blobs, dir: dir, listener: listen(t)}
	s.url = "https://" + s.listener.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.Serve(s.listener) }()
	t.Cleanup(func() {
		s.stop(t)
		must(t, <-done)
	})
	return s
}

// stop cuts all connections.
func (s *site) stop(t testing.TB) {
	t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	must(t, s.Shutdown(over))
}

// follower is a replica that forwards all requests.
type follower struct {
	t         testing.TB
	forwarder *replica.Forwarder
	limiter   *connlimit.Limiter
	server    *http.Server
	leader    atomic.Pointer[string]
	url       string
	socket    string
}

// newFollower makes a follower, which holds polls if it is told how to.
func newFollower(t testing.TB, certificate *tls.Config, leader string, polls *replica.Polls) *follower {
	t.Helper()
	d := &follower{t: t, limiter: &connlimit.Limiter{Limits: connlimit.LimitsFor(4096)}, socket: filepath.Join(t.TempDir(), "controller.sock")}
	d.leader.Store(&leader)
	client := replica.NewClient(trust(t, 1))
	d.forwarder = replica.NewForwarder(replica.ForwarderOptions{ID: "b", Leader: func() string { return *d.leader.Load() }, Client: client, Polls: polls, Log: slog.New(slog.DiscardHandler)})
	d.server = httpapi.NewServer(d.forwarder, slog.New(slog.DiscardHandler))
	tcp := listen(t)
	d.url = "https://" + tcp.Addr().String()
	local, err := new(net.ListenConfig).Listen(t.Context(), "unix", d.socket)
	must(t, err)
	var serving sync.WaitGroup
	for _, l := range []net.Listener{d.limiter.Listener(tcp, certificate), local} {
		serving.Go(func() { _ = d.server.Serve(l) })
	}
	t.Cleanup(func() {
		_ = d.server.Close()
		serving.Wait()
		client.Close()
	})
	return d
}

// world is a leader, and a follower before it.
type world struct {
	*controllertest.Controller
	t        testing.TB
	log      controllertest.Log
	site     *site
	follower *follower
	// held is how many polls the follower holds, asked how many requests for a configuration have come
	// to the leader, and asking how many of them it has not answered.
	held, asked, asking atomic.Int64
	// settle is locked while a commit is on its way, and settling is who waits for its end.
	settle   sync.Mutex
	settling atomic.Int64
	// unseen has the follower see no changes.
	unseen atomic.Bool
	// slow has the leader answer no such request.
	slow     atomic.Bool
	operator string
	client   *http.Client
}

func newWorld(t testing.TB, change func(*httpapi.Options)) *world {
	t.Helper()
	w := &world{t: t}
	w.Controller = controllertest.New(t, controllertest.Options{Now: time.Now,
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	w.Config.MaxFileBytes = 1 << 30
	w.Open()
	o := w.API(func() int { return 7 })
	if change != nil {
		change(&o)
	}
	handler, err := httpapi.New(o)
	must(t, err)
	t.Cleanup(handler.Drain)
	w.site = siteOf(t, w.Config.DataDirectory, w.Blobs)
	w.site.Lead(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/node/config" {
			w.asked.Add(1)
			w.asking.Add(1)
			defer w.asking.Add(-1)
			if w.slow.Load() {
				<-r.Context().Done()
				return
			}
		}
		handler.ServeHTTP(rw, r)
	}), func() {
		w.settling.Add(1)
		defer w.settling.Add(-1)
		w.settle.Lock()
		defer w.settle.Unlock()
	})
	certificate := w.Authority.TLSConfig()
	certificate.NextProtos = []string{"http/1.1"}
	// The leader's own hub stands for what the follower follows: it wakes as much or less.
	w.follower = newFollower(t, certificate, w.site.url, &replica.Polls{Hub: w.Hub, Held: func(delta int) { w.held.Add(int64(delta)) }, Follows: func() bool { return !w.unseen.Load() }})
	token, err := w.Tokens.Create(t.Context(), wire.TokenRequest{Name: "operator", Scope: wire.ScopeOperator})
	must(t, err)
	w.operator = token.Secret
	w.client = w.clientWith(nil, "")
	return w
}

// clientWith is a client of the follower that trusts the controller, with a client certificate if
// there is one, from an address if one is given.
func (w *world) clientWith(certificate *tls.Certificate, from string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.Authority.RootPEM()))
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if certificate != nil {
		c.Certificates = []tls.Certificate{*certificate}
	}
	dialer := new(net.Dialer)
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	transport := &http.Transport{TLSClientConfig: c, DialContext: dialer.DialContext}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// local is a client on the follower's unix socket.
func (w *world) local() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.follower.socket)
	}, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", w.follower.socket)
	}}}
}

// answered is a response that has been read.
type answered struct {
	status int
	header http.Header
	body   string
	err    error
}

// call makes a request at the follower; headers are "Name: value".
func (w *world) call(client *http.Client, method, path, body string, headers ...string) answered {
	return do(w.t.Context(), client, method, w.follower.url+path, strings.NewReader(body), headers...)
}

func do(ctx context.Context, client *http.Client, method, url string, body io.Reader, headers ...string) answered {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return answered{err: err}
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(r)
	if err != nil {
		return answered{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answered{status: response.StatusCode, header: response.Header, body: string(text), err: err}
}

func (w *world) as(token, method, path, body string, headers ...string) answered {
	return w.call(w.client, method, path, body, append([]string{"Authorization: Bearer " + token}, headers...)...)
}

// ok is an answer that has to have this status, decoded into v.
func ok(t testing.TB, a answered, status int, v any) {
	t.Helper()
	if a.status != status || a.err != nil {
		t.Fatalf("status %d (%v), want %d: %s", a.status, a.err, status, a.body)
	}
	if v != nil {
		must(t, json.Unmarshal([]byte(a.body), v))
	}
}

// enroll makes the instance and enrolls its storage server, all through the follower.
func (w *world) enroll() *http.Client {
	w.t.Helper()
	ok(w.t, w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, spec), http.StatusCreated, nil)
	var join wire.JoinToken
	ok(w.t, w.as(w.operator, "GET", "/v1/vnf_instances/"+instanceID+"/join_token", ""), http.StatusOK, &join)
	key := testca.NewKey()
	body, err := json.Marshal(wire.EnrollRequest{ServerID: serverID, CertificateRequest: testca.Request(key, nil)})
	must(w.t, err)
	var issued wire.IssuedCertificate
	ok(w.t, w.as(join.Token, "POST", "/v1/enroll", string(body)), http.StatusCreated, &issued)
	identity, err := testca.Identity(issued.Certificate, key)
	must(w.t, err)
	return w.clientWith(&identity, "")
}

// enrollAndHold is enroll and hold, with the ETag of what the node has.
func (w *world) enrollAndHold() (node *http.Client, known string, held <-chan answered) {
	w.t.Helper()
	node = w.enroll()
	known = w.call(node, "GET", "/v1/node/config", "").header.Get("ETag")
	return node, known, w.hold(w.t.Context(), node, known)
}

// hold starts a poll and returns once it is held; its answer comes on the channel.
func (w *world) hold(ctx context.Context, node *http.Client, etag string) <-chan answered {
	w.t.Helper()
	return w.holdFor(ctx, node, etag, "")
}

func (w *world) holdFor(ctx context.Context, node *http.Client, etag, parameters string, headers ...string) <-chan answered {
	w.t.Helper()
	before := w.Hub.Waiting()
	out := make(chan answered, 1)
	go func() {
		out <- do(ctx, node, "GET", w.follower.url+"/v1/node/config"+parameters, http.NoBody, append(headers, "If-None-Match: "+etag)...)
	}()
	eventually(w.t, "the poll is held", func() bool { return w.Hub.Waiting() > before && (w.unseen.Load() || w.held.Load() > 0) })
	return out
}
