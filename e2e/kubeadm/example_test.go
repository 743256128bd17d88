package kubeadm

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// standIn is a kubeadm that logs what it is asked for, and fails if the test wants it.
const standIn = `#!/bin/sh
[ "$1" = version ] && { echo v1.34.4; exit; }
echo "$*" >>/root/calls
for last in "$@"; do [ "$before" = --config ] && python3 -c 'import json, sys
for d in open(sys.argv[1]).read().split("---"): json.loads(d)' "$last"; before=$last; done
test ! -e /root/fail
`

const (
	token    = "abcdef.0123456789abcdef"
	key      = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	external = "203.0.113.7"
	marker   = "/var/lib/nodehitch/kubeadm-done"
	kubelet  = "/var/lib/kubelet/pki/kubelet-client-current.pem /etc/kubernetes/kubelet.conf"
)

// facts are those of a machine, as the agent writes them.
func facts(t *testing.T, role string, initialize, cluster bool) []byte {
	t.Helper()
	f := map[string]any{
		"version": 1, "digest": "sha256:0", "role": role, "serverId": "1", "endpoint": "10.10.0.10:6443",
		"podCIDR": "10.244.0.0/16", "serviceCIDR": "10.96.0.0/16", "initialize": initialize, "bootstrapToken": token,
		"masters": []any{map[string]any{"serverId": "1", "name": "m", "addresses": []string{"10.10.0.10"}}},
	}
	if role == "master" {
		f["certificateKey"], f["externalAddress"] = key, external
	}
	if cluster {
		f["caCertificateHash"] = "sha256:" + key
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The example calls kubeadm as each state of a machine needs it, however often it runs.
func TestTheExampleForKubeadm(t *testing.T) {
	results.Begin(t, "kubeadm", "the example", "makes a cluster, joins it, and survives repeats; no secret in an argument")
	l := labtest.Open(t, lab.KindNspawn)
	n, err := l.Nspawn(t.Context(), lab.Spec{Name: "member"})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	example, err := os.ReadFile("../../docs/examples/kubeadm.sh")
	must(err)
	must(n.Push(t.Context(), "/root/kubeadm.sh", 0o755, example))
	must(n.Push(t.Context(), "/usr/bin/kubeadm", 0o755, []byte(standIn)))
	const (
		initial = "init --config /run/nodehitch-kubeadm/init.yaml --upload-certs --skip-token-print --skip-certificate-key-print --ignore-preflight-errors "
		upload  = "init phase upload-certs --upload-certs --skip-certificate-key-print --config /run/nodehitch-kubeadm/init.yaml"
		join    = "join --config /run/nodehitch-kubeadm/join.yaml --ignore-preflight-errors "
		resume  = "join --config /run/nodehitch-kubeadm/resume.yaml --skip-phases preflight,control-plane-prepare,kubelet-start,kubelet-wait-bootstrap"
	)
	for _, test := range []struct {
		name                string
		role                string
		initialize, cluster bool
		files               string // that are there before
		fail, done          bool
		calls               []string // beginnings
	}{
		{"the first master", "master", true, false, "", false, true, []string{initial}},
		{"the first master after an attempt that was cut off", "master", true, false, kubelet, false, true, []string{initial}},
		{"the first master, and kubeadm fails", "master", true, false, "", true, false, []string{initial}},
		{"a member without new facts, at boot", "master", true, false, marker, false, true, []string{upload}},
		{"a member that another master needs", "master", false, true, kubelet + " " + marker, false, true, []string{upload}},
		{"a further master before the cluster", "master", false, false, "", false, false, nil},
		{"a further master", "master", false, true, "", false, true, []string{join}},
		{"a further master whose kubelet has a Node already", "master", false, true, kubelet, false, true, []string{resume}},
		{"a further master whose certificates are not there yet", "master", false, true, "", true, false, []string{join}},
		{"a worker before the cluster", "worker", false, false, "", false, false, nil},
		{"a worker", "worker", false, true, "", false, true, []string{join}},
		{"a worker whose kubelet has a Node already", "worker", false, true, kubelet, false, true, nil},
		{"a worker that is a member", "worker", false, true, marker, false, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			prepare := "rm -rf /root/calls /root/fail /run/nodehitch-kubeadm /var/lib/kubelet /etc/kubernetes " + marker +
				"; touch /root/calls; for f in " + test.files + "; do mkdir -p ${f%/*}; touch $f; done; mkdir -p /var/lib/nodehitch"
			if test.fail {
				prepare += "; touch /root/fail"
			}
			_, err := n.Exec(t.Context(), "sh", "-euc", prepare)
			must(err)
			must(n.Push(t.Context(), "/etc/nodehitch/cluster.json", 0o600, facts(t, test.role, test.initialize, test.cluster)))
			out, err := n.Exec(t.Context(), "/root/kubeadm.sh")
			if (err != nil) != test.fail {
				t.Errorf("it ended with %v: %s", err, out)
			}
			log, err := n.Pull(t.Context(), "/root/calls")
			must(err)
			calls := strings.FieldsFunc(string(log), func(r rune) bool { return r == '\n' })
			same := len(calls) == len(test.calls)
			for i := 0; same && i < len(calls); i++ {
				same = strings.HasPrefix(calls[i], test.calls[i])
			}
			if !same {
				t.Errorf("it called kubeadm with\n%s\nwant\n%s", log, strings.Join(test.calls, "\n"))
			}
			if strings.Contains(string(log)+string(out), token) || strings.Contains(string(log)+string(out), key) {
				t.Errorf("a secret is in an argument or in what is printed:\n%s%s", log, out)
			}
			if test.role == "master" {
				wantNamed(t, n, external)
			}
			state, err := n.Exec(t.Context(), "sh", "-c", "test -e "+marker+"; echo $?; stat -c %a /run/nodehitch-kubeadm /run/nodehitch-kubeadm/*.yaml | sort -u | tr '\n' ' '")
			must(err)
			if want := fmt.Sprintf("%d\n600 700 ", map[bool]int{true: 0, false: 1}[test.done]); string(state) != want {
				t.Errorf("whether it is done, and the modes: %q, want %q", state, want)
			}
		})
	}
}

// wantNamed wants the certificate of an API server that kubeadm makes to have this address.
func wantNamed(t *testing.T, n lab.Node, address string) {
	t.Helper()
	text, err := n.Pull(t.Context(), "/run/nodehitch-kubeadm/init.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, cluster, _ := strings.Cut(string(text), "---")
	var c struct{ APIServer struct{ CertSANs []string } }
	if err := json.Unmarshal([]byte(cluster), &c); err != nil || !slices.Equal(c.APIServer.CertSANs, []string{address}) {
		t.Errorf("the API server's certificate is to name %v (%v), want %s", c.APIServer.CertSANs, err, address)
	}
}
