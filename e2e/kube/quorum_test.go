package kube_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodehitch/nodehitch/agent/machine/etcd"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

// Three masters have the etcd of kubeadm's control plane: their members are real, with TLS.
func TestAMasterLeavesEtcd(t *testing.T) {
	results.Begin(t, suite, "departure-etcd",
		"the etcd member of a master is removed before its Node is deleted, dead ones first; if the others would have no quorum nothing is done")
	results.LongOnly(t)
	kubetest.Require(t)
	for name, c := range map[string]struct {
		dead, leave []string
		force       bool
		reason      api.Reason
		stay        []string // members of etcd
		kept        []string // Nodes that leave and are not deleted
	}{
		"all run":                             {nil, []string{"m2"}, false, api.ReasonMembersLeft, []string{"m1", "m3"}, nil},
		"two of three":                        {nil, []string{"m2", "m3"}, false, api.ReasonMembersLeft, []string{"m1"}, nil},
		"the dead one":                        {[]string{"m3"}, []string{"m3"}, false, api.ReasonMembersLeft, []string{"m1", "m2"}, nil},
		"the dead one and another":            {[]string{"m3"}, []string{"m2", "m3"}, false, api.ReasonMembersLeft, []string{"m1"}, nil},
		"one of the two that run":             {[]string{"m3"}, []string{"m2", "w1"}, false, api.ReasonQuorumAtRisk, []string{"m1", "m2", "m3"}, []string{"m2", "w1"}},
		"one of the two that run, by force":   {[]string{"m3"}, []string{"m2", "w1"}, true, api.ReasonQuorumAtRisk, []string{"m1", "m2", "m3"}, []string{"m2"}},
		"one whose Node was deleted already":  {nil, []string{"m2"}, false, api.ReasonMembersLeft, []string{"m1", "m3"}, nil},
		"one whose etcd was removed already":  {nil, []string{"m2"}, false, api.ReasonMembersLeft, []string{"m1", "m3"}, nil},
		"a worker, with any number of others": {[]string{"m3"}, []string{"w1"}, false, api.ReasonMembersLeft, []string{"m1", "m2", "m3"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeparting(t)
			e := newEtcds(t, d)
			d.masters(e.addresses)
			d.node("w1", "10.10.0.9")
			for _, node := range c.dead {
				d.must(e.running[node].Process.Kill())
				<-e.running[node].Ended()
			}
			e.names() // the others have a leader
			var leave []api.ClusterServer
			for _, node := range c.leave {
				leave = append(leave, serverAt(node, e.addresses[node]))
			}
			switch {
			case strings.Contains(name, "Node was deleted"):
				if _, err := d.Kubectl(t.Context(), "delete", "node", "m2"); err != nil {
					t.Fatal(err)
				}
			case strings.Contains(name, "etcd was removed"):
				e.until(func(ctx context.Context) error { return e.client.Remove(ctx, e.member("m2").ID) })
			}
			d.leave(c.force, leave...)
			d.door.did()
			if c.reason == api.ReasonQuorumAtRisk {
				d.expect(api.ReasonConverging) // a request to a member that runs may fail, too
				d.ahead = time.Minute
			}
			d.converge(c.reason)
			if stay := e.names(); !slices.Equal(stay, c.stay) {
				t.Errorf("etcd has the members %v, want %v", stay, c.stay)
			}
			for _, node := range c.leave {
				if gone := d.get("nodes", node) == nil; gone == slices.Contains(c.kept, node) {
					t.Errorf("Node %s is gone: %v", node, gone)
				}
			}
			if did := d.door.did(); c.reason != api.ReasonMembersLeft && !c.force && len(did) > 0 {
				t.Errorf("it refused, and did %v", did)
			}
		})
	}
}

// Heat gives the address of a master that it replaces to the new one.
func TestAnAddressThatAnotherMasterHas(t *testing.T) {
	results.Begin(t, suite, "departure-etcd-address", "the etcd member of a master that has the address of one that left stays, whether its Node is there or not yet")
	results.LongOnly(t)
	kubetest.Require(t)
	d := newDeparting(t)
	e := newEtcds(t, d)
	stays := func(by string) {
		t.Helper()
		d.leave(false, serverAt("before", e.addresses["m2"]))
		d.expect(api.ReasonMembersLeft)
		if names := e.names(); len(names) != 3 {
			t.Fatalf("with %s etcd has the members %v", by, names)
		}
	}
	d.node("m2", e.addresses["m2"])
	stays("a Node")
	d.must(d.of("nodes").Delete(t.Context(), "m2", metav1.DeleteOptions{}))
	d.doc.ClusterMembers = &api.ClusterMembersSection{Members: []api.ClusterMember{{ServerID: serverID("m2"), Name: "m2", Addresses: []string{e.addresses["m2"]}}}}
	stays("a listed server")
}

// Nothing listens where the master's etcd should.
func TestADepartureWithoutEtcd(t *testing.T) {
	results.Begin(t, suite, "departure-without-etcd", "while etcd does not answer workers leave, and masters stay; by force their Pods are evicted")
	kubetest.Require(t)
	d := newDeparting(t)
	addresses := map[string]string{"m1": "127.0.0.1", "m2": "127.0.0.2"}
	(&etcds{t: t, addresses: addresses}).certificates(d)
	d.etcd = "https://127.0.0.1:1"
	d.restart()
	d.masters(addresses)
	for _, name := range []string{"w1", "w2"} {
		d.node(name)
	}
	for _, node := range []string{"m2", "w1", "w2"} {
		d.pod("web-"+node, node, byReplicaSet, 0)
	}
	d.leave(false, serverOf("w1"))
	d.leaves("w1")
	d.leave(false, serverAt("m2", addresses["m2"]), serverOf("w2"))
	d.door.did()
	d.expect(api.ReasonClusterNotInstalled, "etcd does not answer")
	if did := d.door.did(); len(did) > 0 {
		t.Errorf("it did %v", did)
	}
	d.leave(true, d.doc.ClusterDepartures.Members...)
	d.expect(api.ReasonConverging, "delete Node w2")
	d.expect(api.ReasonClusterNotInstalled, "etcd does not answer")
	d.wantNode("m2", true)
	if d.get("nodes", "w2") != nil || d.evictions("web-m2") != 1 {
		t.Errorf("Node w2 is there, or the Pod of m2 was not evicted: %v", d.door.evicted)
	}
}

// masters makes the Nodes of masters, and says in the document that they are.
func (d *departing) masters(addresses map[string]string) {
	d.doc.Cluster = &api.ClusterSection{}
	for name, address := range addresses {
		d.node(name, address)
		d.doc.Cluster.Masters = append(d.doc.Cluster.Masters, serverAt(name, address))
	}
}

// serverAt is serverOf with an address.
func serverAt(node, address string) api.ClusterServer {
	s := serverOf(node)
	s.Addresses = []string{address}
	return s
}

// etcds are the members of an etcd cluster, m1 to m3. The agent is on m1.
type etcds struct {
	t         *testing.T
	addresses map[string]string
	running   map[string]*process.Process
	client    *etcd.Client
}

func newEtcds(t *testing.T, d *departing) *etcds {
	t.Helper()
	e := &etcds{t: t, addresses: map[string]string{}, running: map[string]*process.Process{}}
	network := fmt.Sprintf("127.%d.%d.", 1+rand.N(254), rand.N(256))
	var peers []string
	for i, name := range []string{"m1", "m2", "m3"} {
		e.addresses[name] = fmt.Sprintf("%s%d", network, i+1)
		peers = append(peers, fmt.Sprintf("%s=http://%s:2380", name, e.addresses[name]))
	}
	files := e.certificates(d)
	for name, address := range e.addresses {
		clients := "https://" + address + ":2379"
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), d.Binary("etcd"), "--name="+name, "--data-dir="+filepath.Join(files, name), "--log-level=error", "--unsafe-no-fsync",
			"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
			"--listen-peer-urls=http://"+address+":2380", "--initial-advertise-peer-urls=http://"+address+":2380", "--initial-cluster="+strings.Join(peers, ","),
			"--client-cert-auth", "--trusted-ca-file="+filepath.Join(files, "ca.crt"), "--cert-file="+filepath.Join(files, "server.crt"), "--key-file="+filepath.Join(files, "server.key"))
		p, err := process.Start(cmd)
		d.must(err)
		e.running[name] = p
		t.Cleanup(func() { _ = p.Process.Kill(); <-p.Ended() })
	}
	d.etcd = "https://" + e.addresses["m1"] + ":2379"
	d.restart()
	access := etcd.Access{Host: d.m.Host(), Endpoint: d.etcd}
	var err error
	e.client, err = access.Open()
	d.must(err)
	e.until(e.ready)
	return e
}

// certificates writes those of the members, and gives the agent kubeadm's.
func (e *etcds) certificates(d *departing) string {
	dir := e.t.TempDir()
	root := testca.Root(e.t, "etcd-ca")
	write := func(name string, content []byte) { d.must(os.WriteFile(filepath.Join(dir, name), content, 0o600)) }
	for name, use := range map[string]x509.ExtKeyUsage{"server": x509.ExtKeyUsageServerAuth, "healthcheck-client": x509.ExtKeyUsageClientAuth} {
		template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{use, x509.ExtKeyUsageClientAuth}}
		for _, address := range e.addresses {
			template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
		}
		pair := root.Issue(e.t, template)
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		d.must(err)
		write(name+".crt", testca.Encode(pair.Certificate[0]))
		write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	}
	write("ca.crt", root.PEM())
	for _, name := range []string{"ca.crt", "healthcheck-client.crt", "healthcheck-client.key"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		d.must(err)
		d.m.Files["/etc/kubernetes/pki/etcd/"+name] = hosttest.FileState{Content: string(content), Mode: 0o600}
	}
	return dir
}

// until waits until this succeeds: etcd starts, or lets a member go.
func (e *etcds) until(done func(context.Context) error) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := done(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			e.t.Fatalf("etcd: %v", err)
		case <-tick.C:
		}
	}
}

// ready returns nil if there are three members, and each is healthy.
func (e *etcds) ready(ctx context.Context) error {
	all, err := e.client.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := e.client.Healthy(ctx, m); err != nil {
			return err
		}
	}
	if len(all) != 3 {
		return errors.New("it has not three members")
	}
	return nil
}

func (e *etcds) member(name string) etcd.Member {
	e.t.Helper()
	all, err := e.client.Members(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(m etcd.Member) bool { return m.Name == name })
	if i < 0 {
		e.t.Fatalf("etcd has no member %s", name)
	}
	return all[i]
}

// names are the members, as those that run know them. A leader that was killed has to be
// replaced first.
func (e *etcds) names() (list []string) {
	e.t.Helper()
	var all []etcd.Member
	e.until(func(ctx context.Context) (err error) {
		all, err = e.client.Members(ctx)
		return err
	})
	for _, m := range all {
		list = append(list, m.Name)
	}
	slices.Sort(list)
	return list
}
