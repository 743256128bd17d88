package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const (
	stableInstance = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
	day            = 24 * time.Hour
)

// The user_data of a stack is made before the stack is, and Heat replaces the servers
// whose user_data changes: so what it says has to hold for as long as the stack lives. A
// worker that a scale-out makes three years later, from the same bytes, comes in.
func TestUserDataIsGoodForTheLifeOfItsStack(t *testing.T) {
	l := newStableController(t)
	l.open()
	spec, _ := os.ReadFile("../../shared/params/testdata/persistent-volumes.json")
	var body struct{ AdditionalParams json.RawMessage }
	l.must(json.Unmarshal(spec, &body))
	_, created, err := l.Lifecycle.Instances.PutInstance(t.Context(), stableInstance, wire.InstanceSpec{StackID: "vnf-1", AdditionalParams: body.AdditionalParams})
	if err != nil || !created {
		t.Fatalf("instantiate_start: %v, created %v", err, created)
	}
	userData := l.userData()
	first := l.machine(userData, "11111111-0000-4000-8000-000000000001")
	l.stack(first.id)
	if status := first.enroll(); status != http.StatusCreated {
		t.Fatalf("the first worker's enrollment is answered %d", status)
	}

	servers, intermediates := map[string]bool{}, map[string]bool{}
	for passed := time.Duration(0); passed < 3*365*day; passed += 10 * day {
		l.now = l.now.Add(10 * day)
		l.must(l.Authority.Rotate())
		chain := l.Authority.ServerCertificate().Certificate
		servers[string(chain[0])], intermediates[string(chain[1])] = true, true
		if passed%(100*day) == 0 {
			l.close()
			l.open()
		}
	}
	if len(servers) < 15 || len(intermediates) < 3 {
		t.Fatalf("in three years there were %d certificates of the listener and %d intermediates", len(servers), len(intermediates))
	}

	if again := l.userData(); !bytes.Equal(again, userData) {
		t.Errorf("user_data changed, so that Heat would replace every server:\n%s\n%s", userData, again)
	}
	worker := l.machine(userData, "11111111-0000-4000-8000-000000000002")
	if status := worker.enroll(); status != http.StatusForbidden {
		t.Errorf("a machine that the stack has not is answered %d", status)
	}
	l.stack(first.id, worker.id)
	l.now = l.now.Add(time.Minute) // the stack was observed just now
	if status := worker.enroll(); status != http.StatusCreated {
		t.Fatalf("the new worker's enrollment is answered %d", status)
	}
	if status := worker.config(); status != http.StatusOK {
		t.Errorf("its configuration is answered %d", status)
	}
	if status := first.config(); status != http.StatusUnauthorized {
		t.Errorf("with a certificate that ended three years ago the answer is %d", status)
	}
}

// stableController is a controller in this process: all its services, on a clock that the test moves.
type stableController struct {
	*services
	t       *testing.T
	c       config.Config
	cloud   *openstacktest.Cloud
	now     time.Time
	served  chan error
	stopped context.CancelFunc
}

func newStableController(t *testing.T) *stableController {
	c := config.Default()
	c.DataDirectory = t.TempDir()
	c.SealKeyFile = filepath.Join(c.DataDirectory, "seal.key")
	c.Names, c.Attestation.Mode = []string{"127.0.0.1"}, config.AttestToken
	c.Listen = loopback.FreeAddress(t) // the same after each start: it is in user_data
	c.AdvertiseURLs = []string{"https://" + c.Listen}
	l := &stableController{t: t, c: c, cloud: openstacktest.Start(t), now: time.Now()}
	l.c.OpenStack.CloudsFile, l.c.OpenStack.Cloud = l.cloud.CloudsFile(t), "fake"
	t.Cleanup(l.close)
	return l
}

func (l *stableController) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *stableController) open() {
	l.t.Helper()
	var err error
	l.services, err = open(l.c, nil, telemetry.New("test"), func() time.Time { return l.now }, slog.New(slog.DiscardHandler))
	l.must(err)
	listener, err := new(net.ListenConfig).Listen(l.t.Context(), "tcp", l.c.Listen)
	l.must(err)
	server, served := l.handler.HTTPServer(), make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(listener, tlsConfig(l.Authority, l.browsers))) }()
	l.served, l.stopped = served, func() { _ = server.Close() }
}

func (l *stableController) close() {
	if l.services == nil {
		return
	}
	l.stopped()
	if err := <-l.served; !errors.Is(err, http.ErrServerClosed) {
		l.t.Error(err)
	}
	if err := l.Store.Close(); err != nil {
		l.t.Error(err)
	}
	l.services = nil
}

// userData is what HOT parameters are made of.
func (l *stableController) userData() []byte {
	l.t.Helper()
	token, err := l.Enrollment.JoinToken(l.t.Context(), stableInstance)
	l.must(err)
	text, err := cloudinit.Render(cloudinit.Params{
		ControllerURLs: l.c.AdvertiseURLs, RootPEM: []byte(l.Authority.RootPEM()), Pin: l.Authority.Pin(), JoinToken: token,
	}, "")
	l.must(err)
	return text
}

// stack is the stack with these workers.
func (l *stableController) stack(servers ...string) {
	var members []openstacktest.Resource
	for i, id := range servers {
		nested := fmt.Sprintf("22222222-0000-4000-8000-00000000000%d", i)
		members = append(members, openstacktest.Resource{Name: fmt.Sprintf("member%d", i), Type: "worker.yaml", PhysicalID: nested,
			Nested: []openstacktest.Resource{{Name: "workerNode", Type: "OS::Nova::Server", PhysicalID: id}}})
		l.cloud.Put(openstacktest.Server{ID: id, Name: fmt.Sprintf("worker%d", i)})
	}
	l.cloud.Put(openstacktest.Stack{ID: "33333333-0000-4000-8000-000000000001", Name: "vnf-1", Status: "UPDATE_IN_PROGRESS",
		Resources: []openstacktest.Resource{{Name: "worker_instance", Type: "OS::Heat::AutoScalingGroup",
			PhysicalID: "33333333-0000-4000-8000-000000000002", Nested: members}}})
}

// newcomer is a VM that knows what its user_data says and nothing else.
type newcomer struct {
	*stableController
	id    string
	agent struct {
		ControllerURLs                  []string
		RootCertificate, Pin, JoinToken string
	}
	key         *ecdsa.PrivateKey
	certificate tls.Certificate
}

func (l *stableController) machine(userData []byte, id string) *newcomer {
	l.t.Helper()
	var cloudConfig struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
	}
	l.must(yaml.Unmarshal(userData, &cloudConfig))
	m := &newcomer{stableController: l, id: id, key: testca.NewKey()}
	i := slices.IndexFunc(cloudConfig.WriteFiles, func(f struct{ Path, Content string }) bool { return f.Path == "/etc/nodehitch/agent.yaml" })
	l.must(yaml.Unmarshal([]byte(cloudConfig.WriteFiles[i].Content), &m.agent))
	return m
}

// call trusts the pinned root alone, at the time that it is.
func (m *newcomer) call(method, path string, body any) (int, []byte) {
	m.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(m.agent.RootCertificate))
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, Time: func() time.Time { return m.now },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &m.certificate, nil },
		VerifyConnection: func(s tls.ConnectionState) error {
			chain := s.VerifiedChains[0]
			if sum := sha256.Sum256(chain[len(chain)-1].Raw); "sha256:"+hex.EncodeToString(sum[:]) != m.agent.Pin {
				return errors.New("the root is not the one that is pinned")
			}
			return nil
		},
	}}
	defer transport.CloseIdleConnections()
	text, err := json.Marshal(body)
	m.must(err)
	r, err := http.NewRequestWithContext(m.t.Context(), method, m.agent.ControllerURLs[0]+path, bytes.NewReader(text))
	m.must(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+m.agent.JoinToken)
	response, err := (&http.Client{Transport: transport}).Do(r)
	m.must(err)
	defer response.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(response.Body)
	m.must(err)
	return response.StatusCode, answer.Bytes()
}

func (m *newcomer) enroll() int {
	m.t.Helper()
	status, text := m.call(http.MethodPost, "/v1/enroll", wire.EnrollRequest{ServerID: m.id, CertificateRequest: testca.Request(m.key, nil)})
	if status != http.StatusCreated {
		m.t.Logf("enrollment of %s: %d %s", m.id, status, text)
		return status
	}
	var issued wire.IssuedCertificate
	m.must(json.Unmarshal(text, &issued))
	var err error
	m.certificate, err = testca.Identity(issued.Certificate, m.key)
	m.must(err)
	return status
}

func (m *newcomer) config() int {
	m.t.Helper()
	m.agent.JoinToken = "" // the certificate is what counts from here on
	status, _ := m.call(http.MethodGet, "/v1/node/config", nil)
	return status
}
