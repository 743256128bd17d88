package kubernetes

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// shortLived makes kubeadm's certificates valid for ten minutes, and those that kubelets get too. Both
// are dated back by another five, so the last five are the last third of kubeadm's, and kubelet renews
// its own when seven to nine tenths have gone by: five and a half to eight and a half minutes old.
const shortLived = kube.ProxyConfiguration + `---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
certificateValidityPeriod: 10m
controllerManager: {extraArgs: [{name: cluster-signing-duration, value: 10m}]}
`

// TestCertificates has a cluster whose certificates come to their last third.
func TestCertificates(t *testing.T) {
	results.LongOnly(t)
	w := newCluster(t)
	r := results.Begin(t, suite, "certificates", "three masters that share the endpoint's address renew their certificates one after the other in the last third, with the components that have read them restarted, while the API is asked at that address; kubelets renew their own, and no Node ceases to be Ready")
	w.write("Files/kubeadm.yaml", shortLived)
	w.draw(3, 1)
	shared := w.share()
	w.ask()
	w.boot(w.Topology.Servers...)
	w.Operate(api.Instantiate)
	w.sound()
	kubelets := map[*sitetest.Machine]string{}
	for _, m := range w.Up() {
		kubelets[m] = w.rotates(m)
	}
	ready := w.kubectl(readySince...)

	stop := w.askEver(shared)
	before := map[*sitetest.Machine]time.Time{}
	for _, m := range w.Of(masterPoint) {
		before[m] = w.served(m)
	}
	for _, m := range w.Of(masterPoint) {
		m.Await("its certificates are renewed", func(n *api.Node) error {
			if f := n.Status.ControlPlane; f == nil || f.RenewalDue || !f.CertificatesExpireAt.After(before[m]) || !n.Ready {
				return fmt.Errorf("status %+v", n.Status)
			}
			return nil
		})
	}
	for m, first := range kubelets {
		w.Until(m.Name()+": kubelet has renewed its certificate", func() error {
			if now := w.rotates(m); now == first {
				return fmt.Errorf("it is %s, as before", now)
			}
			return nil
		})
	}
	answers, failures, longest := stop()
	r.Figure("answers of the API while three masters renewed", "%d", answers)
	r.Figure("failures", "%d", failures)
	r.Figure("longest time without an answer", "%.1f s", longest.Seconds())
	if answers == 0 || longest > 30*time.Second {
		t.Errorf("of %d requests %d failed, for up to %v at a time, want at most 30s", answers+failures, failures, longest)
	}
	for m, until := range before {
		if now := w.served(m); !now.After(until) {
			t.Errorf("%s serves a certificate that expires at %v, as before", m.Name(), now)
		}
	}
	w.sound()
	if now := w.kubectl(readySince...); now != ready {
		t.Errorf("Nodes are Ready since\n%s\nwhich was before\n%s", now, ready)
	}
	if names := w.voters(); len(names) != 3 {
		t.Errorf("etcd has the members %q that vote, want three", names)
	}
}

// readySince asks since when each Node is Ready.
var readySince = []string{"get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].lastTransitionTime}{"\n"}{end}`}

// rotates asserts that kubelet renews its own certificate: its configuration says so, and the
// kubeconfig names the file that it renews, also on the master that has made the cluster. It returns
// the file that the certificate is in now: kubelet makes another one for each.
func (w *cluster) rotates(m *sitetest.Machine) string {
	w.T.Helper()
	if config := m.Run("cat", "/var/lib/kubelet/config.yaml"); !strings.Contains(config, "rotateCertificates: true\n") {
		w.T.Errorf("%s: kubelet's configuration is\n%s", m.Name(), config)
	}
	const file = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	if config := m.Run("cat", "/etc/kubernetes/kubelet.conf"); !strings.Contains(config, "client-certificate: "+file+"\n") || strings.Contains(config, "client-key-data") {
		w.T.Errorf("%s: kubelet.conf does not name %s", m.Name(), file)
	}
	return m.Run("readlink", "--canonicalize-existing", file)
}

// served is when the certificate expires with which a master's API server answers.
func (w *cluster) served(m *sitetest.Machine) time.Time {
	w.T.Helper()
	out := m.Run("curl", "--silent", "--show-error", "--insecure", "--output", "/dev/null", "--write-out", "%{certs}", "https://"+m.Server.ConnectionPoints[0].Addresses[0]+":6443/livez")
	block, _ := pem.Decode([]byte(out[max(0, strings.Index(out, "-----BEGIN")):]))
	if block == nil {
		w.T.Fatalf("%s: curl says %q", m.Name(), out)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.T.Fatal(err)
	}
	return c.NotAfter
}

// askEver lets a worker ask for its Node at an address, several times a second, with kubelet's own
// certificate. The function that it returns ends that, and counts.
func (w *cluster) askEver(address string) (stop func() (answers, failures int, longest time.Duration)) {
	w.T.Helper()
	const pem, log, unit = "/var/lib/kubelet/pki/kubelet-client-current.pem", "/root/asked", "asking"
	m := w.Of(workerPoint)[0]
	ask := fmt.Sprintf(`while :; do
if curl --silent --fail --output /dev/null --max-time 2 --cacert /etc/kubernetes/pki/ca.crt --cert %[1]s --key %[1]s "$0"; then said=yes; else said=no; fi
echo $said $(date +%%s%%3N) >>%[2]s
sleep 0.2
done`, pem, log)
	m.Run("systemd-run", "--quiet", "--unit="+unit, "bash", "-c", ask, "https://"+address+":6443/api/v1/nodes/"+m.Name())
	return func() (answers, failures int, longest time.Duration) {
		w.T.Helper()
		m.Run("systemctl", "stop", unit)
		var last int64
		for line := range strings.Lines(m.Run("cat", log)) {
			said, at, _ := strings.Cut(strings.TrimSpace(line), " ")
			now, err := strconv.ParseInt(at, 10, 64)
			switch {
			case err != nil:
				w.T.Fatalf("%q: %v", line, err)
			case said != "yes":
				failures++
				continue
			}
			if answers++; answers > 1 {
				longest = max(longest, time.Duration(now-last)*time.Millisecond)
			}
			last = now
		}
		return answers, failures, longest
	}
}
