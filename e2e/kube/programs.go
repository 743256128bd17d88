package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// controllers are the ones that bind claims, and keep what is in use from being deleted.
var controllers = []string{
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
}

// memberControllers are the further ones of a cluster whose machines may join.
var memberControllers = []string{
	"certificatesigningrequest-signing-controller",
	"replicaset-controller",
	"disruption-controller",
}

// describePrograms says how each program is started.
func (c *Cluster) describePrograms(ctx context.Context) error {
	clients, err := c.free(ctx, randomLoopback())
	if err != nil {
		return err
	}
	peers, err := c.free(ctx, randomLoopback())
	if err != nil {
		return err
	}
	c.Etcd = c.program(append([]string{"etcd"}, c.etcdFlags("http://"+clients.String(), "http://"+peers.String())...),
		c.asker(nil, "http://"+clients.String()+"/readyz"))
	identity, err := c.authority.client(time.Time{}, Admin, Masters)
	if err != nil {
		return err
	}
	c.APIServer = c.program(append([]string{"kube-apiserver"}, c.apiServerFlags("http://"+clients.String())...),
		c.asker(&tls.Config{RootCAs: c.authority.pool(), Certificates: []tls.Certificate{identity}}, c.URL+"/readyz"))
	c.ControllerManager = c.program(append([]string{"kube-controller-manager"}, c.controllerManagerFlags()...), nil)
	return nil
}

func (c *Cluster) program(argv []string, ready func(context.Context) error) *Program {
	return &Program{Name: argv[0], LogFile: c.file(argv[0] + ".log"), argv: argv, cluster: c, ready: ready}
}

func (c *Cluster) etcdFlags(clients, peers string) []string {
	return []string{
		"--name=etcd", "--data-dir=" + c.file("etcd"), "--log-level=warn",
		"--unsafe-no-fsync", // killing a process loses nothing; a power cut is not tested here
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=etcd=" + peers,
	}
}

func (c *Cluster) apiServerFlags(etcd string) []string {
	address := c.o.Address.Addr().String()
	var flags []string
	if c.o.Members {
		flags = []string{"--enable-admission-plugins=NodeRestriction",
			"--audit-policy-file=" + c.file(auditPolicyFile), "--audit-log-path=" + c.AuditLog()}
	}
	return append(flags,
		"--etcd-servers="+etcd, "--authorization-mode=Node,RBAC", "--enable-bootstrap-token-auth", "--v=1", "--cert-dir="+c.o.Dir,
		"--bind-address="+address, fmt.Sprintf("--secure-port=%d", c.o.Address.Port()),
		"--tls-cert-file="+c.file(serverCertificate), "--tls-private-key-file="+c.file(serverKey),
		"--client-ca-file="+c.file(authorityFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.file(serviceAccountKey), "--service-account-signing-key-file="+c.file(serviceAccountKey),
		// There are no pods that ask for the address of the API server as a service.
		"--advertise-address="+address, "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/24",
		"--disable-admission-plugins=ServiceAccount",
	)
}

// AuditLog has a line in JSON, an audit.k8s.io/v1 Event, for each completed request that
// makes an eviction or deletes a Node or a Pod, if Options.Members is set.
func (c *Cluster) AuditLog() string { return c.file("audit.log") }

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods/eviction]}]}
- {level: Metadata, verbs: [delete], resources: [{group: "", resources: [pods, nodes]}]}
- {level: None}
`

func (c *Cluster) controllerManagerFlags() []string {
	run := slices.Concat(controllers, c.o.Controllers)
	var flags []string
	if c.o.Members {
		run = slices.Concat(run, memberControllers)
		flags = []string{"--cluster-signing-cert-file=" + c.file(authorityFile), "--cluster-signing-key-file=" + c.file(authorityKey)}
	}
	return append(flags,
		"--kubeconfig="+c.file(adminFile), "--controllers="+strings.Join(run, ","), "--v=1",
		"--leader-elect=false", "--secure-port=0",
		"--pvclaimbinder-sync-period=1s", // how long a lost race takes; 15 s by default
	)
}

func (c *Cluster) file(name string) string { return filepath.Join(c.o.Dir, name) }

// asker requests a health URL of the cluster.
func (c *Cluster) asker(config *tls.Config, url string) func(context.Context) error {
	dial := new(net.Dialer).DialContext
	if c.o.Lab != nil {
		dial = c.o.Lab.Dial
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext: dial, TLSClientConfig: config, DisableKeepAlives: true, // each life is another server
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, answer.Status)
		}
		return nil
	}
}

// randomLoopback is one of sixteen million addresses of 127.0.0.0/8: no other
// cluster of this machine is likely to have the same.
func randomLoopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.N(254)), byte(rand.N(256)), byte(1 + rand.N(254))})
}
