package trust

import (
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// attested is a controller that attests servers with a cloud. It has an instance with a
// stack in that cloud. The cloud is one in memory; e2e/stacks has a real one.
type attested struct {
	*target
	wire  *wire
	cloud *openstacktest.Cloud
}

// newAttested is on a wire of its own, or with nil on 127.0.0.1.
func newAttested(t testing.TB, on *wire) *attested {
	t.Helper()
	a := &attested{wire: on}
	start := func() error {
		a.cloud = openstacktest.Start(t)
		return nil
	}
	o := loopback.Options{Settings: map[string]string{"log": "{level: debug}", "attestation": "{mode: nova}"}}
	if on == nil {
		_ = start() // it is always nil
	} else {
		inside(t, on.host, start)
		o.Address, o.Wrap = hostEnd+":8443", in(on.host)
	}
	o.Settings["openstack"] = "{cloud: fake, cloudsFile: " + a.cloud.CloudsFile(t) + ", timeoutSeconds: 5}"
	a.target = &target{t: t, Controller: loopback.Open(t, o), roots: x509.NewCertPool()}
	a.roots.AppendCertsFromPEM([]byte(a.Trust().RootCertificate))
	a.ours = stack{instance: uuid.NewString(), storage: uuid.NewString(), worker: uuid.NewString(), volume: uuid.NewString(), spares: []string{uuid.NewString()}}
	made := openstacktest.Stack{ID: uuid.NewString(), Name: "vnf-" + a.ours.instance, Status: "CREATE_COMPLETE"}
	for _, id := range a.ours.servers() {
		a.cloud.Put(openstacktest.Server{ID: id, Name: id[:8]})
		made.Resources = append(made.Resources, openstacktest.Resource{Name: "server-" + id[:8], Type: "OS::Nova::Server", PhysicalID: id})
	}
	a.cloud.Put(made)
	topology := a.ours.topology()
	topology.StackID = made.ID
	a.Put(a.ours.instance, topology)
	a.ours.token = a.JoinToken(a.ours.instance)
	return a
}

// agent is the real agent on the machine at the other end of the wire.
func (a *attested) agent(server string) *loopback.Agent {
	return loopback.StartAgent(a.t, loopback.AgentOptions{ServerID: server, Config: a.AgentConfig(a.ours.instance), Wrap: in(a.wire.machine)})
}

// The whole attestation, as on a cloud: at first the metadata service has an old answer, and
// the machine's status says that it waits for the nonce.
func TestAMachineIsAttested(t *testing.T) {
	for name, serve := range map[string]func(*metadata, *wire){
		"IPv4":                            (*metadata).serveIPv4,
		"a network without IPv4 metadata": (*metadata).serveIPv6,
	} {
		t.Run(name, func(t *testing.T) {
			try := begin(t, nil, "attestation: "+name, "a machine that reads its nonce from its own metadata service enrolls, and no log has the nonce")
			a := newAttested(t, newWire(t))
			service := &metadata{cloud: a.cloud, server: a.ours.worker, keeps: 5 * time.Second}
			serve(service, a.wire)
			begun := time.Now()
			agent := a.agent(a.ours.worker)
			loopback.Until(t, "it says what it waits for", func() bool {
				return strings.Contains(agent.Status().Summary(), "the controller wants proof that this machine is the server "+a.ours.worker)
			})
			nonce := a.cloud.Metadata(a.ours.worker)["nodehitch_nonce"]
			loopback.Until(t, "it has enrolled", func() bool { return a.Node(a.ours.worker).State == api.NodeEnrolled })
			try.c.Figure("enrolled after", "%.1f s", time.Since(begun).Seconds())
			if got := a.Node(a.ours.worker).Attestation; got != api.AttestedByNonce {
				t.Errorf("attested %q", got)
			}
			loopback.Until(t, "the nonce is out of the metadata", func() bool { return a.cloud.Metadata(a.ours.worker)["nodehitch_nonce"] == "" })
			if nonce == "" {
				t.Fatal("the metadata had no nonce that a log could hold")
			}
			for where, text := range map[string][]byte{"the agent's log": agent.Log(), "the controller's": a.Log()} {
				try.mustNotHold(where, string(text), map[string]string{"the nonce": nonce})
			}
			out, err := a.Hitchctl("describe", "node", a.ours.worker)
			if err != nil || !strings.Contains(string(out), "nova-nonce") {
				t.Errorf("%s, %v", out, err)
			}
		})
	}
}

// A pod on one worker has read the user_data and the metadata of its machine. It tries to
// enroll as another server; that server itself can still enroll.
func TestAPodClaimsAnotherServer(t *testing.T) {
	try := begin(t, nil, "attestation: a pod claims another server",
		"the join token, the ids of all servers and its own machine's nonce do not give a pod another server's identity")
	a := newAttested(t, nil)
	own, other := a.ours.spares[0], a.ours.worker
	try.refused("its own server, without the nonce", a.boot(own).enrollWithNonce(a.ours.token, ""), http.StatusPreconditionRequired)
	nonce := a.cloud.Metadata(own)["nodehitch_nonce"]
	thief, good := a.boot(other), a.boot(other)
	for what, shown := range map[string]string{"nothing": "", "its own machine's nonce": nonce, "a guess": strings.Repeat("0", 32), "a long one": strings.Repeat("0", 128)} {
		try.refused("another server, with "+what, thief.enrollWithNonce(a.ours.token, shown), http.StatusPreconditionRequired)
	}
	try.allowed("the machine itself", good.enrollWithNonce(a.ours.token, a.cloud.Metadata(other)["nodehitch_nonce"]), http.StatusCreated)
	try.refused("another server, when that has enrolled", thief.enrollWithNonce(a.ours.token, nonce), http.StatusConflict)
	if calls := a.cloud.Calls()[openstacktest.SetMetadata]; calls != 2 {
		t.Errorf("%d nonces were written for two servers", calls)
	}
	a.cloud.Fail(openstacktest.ServerByID, openstacktest.Fault{Status: http.StatusServiceUnavailable})
	got := a.boot(a.ours.storage).enrollWithNonce(a.ours.token, "")
	try.refused("while Nova is down", got, http.StatusBadGateway)
	if got.header.Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
}

// enrollWithNonce enrolls with a nonce, and does not use the certificate.
func (m *machine) enrollWithNonce(token, nonce string) answer {
	m.t.Helper()
	request := api.EnrollRequest{ServerID: m.id, CertificateRequest: testca.Request(m.key, nil), Nonce: nonce}
	return m.w.caller().call(http.MethodPost, "/v1/enroll", asJSON(m.t, request), bearer(token))
}
