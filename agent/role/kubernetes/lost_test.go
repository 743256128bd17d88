package kubernetes_test

import (
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What a power failure has emptied is gone when kubeadm runs again, with what the authority has
// signed that is lost. What is whole stays, and an authority that is an operator's too.
func TestWhatAPowerFailureHasEmptiedIsRemoved(t *testing.T) {
	const pki, kubelet = "/etc/kubernetes/pki/", "/var/lib/kubelet/pki/kubelet."
	all := []string{
		"/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf", pki + "apiserver-etcd-client.crt", pki + "apiserver-etcd-client.key",
		pki + "apiserver.crt", pki + "apiserver.key", pki + "ca.crt", pki + "ca.key", pki + "etcd/ca.crt", pki + "etcd/ca.key",
		pki + "front-proxy-ca.crt", pki + "front-proxy-ca.key", pki + "sa.key", pki + "sa.pub", kubelet + "crt", kubelet + "key",
	}
	signed := []string{pki + "ca.crt", pki + "ca.key", pki + "apiserver.crt", pki + "apiserver.key", "/etc/kubernetes/admin.conf", "/etc/kubernetes/kubelet.conf"}
	for name, c := range map[string]struct{ emptied, missing, gone []string }{
		"nothing":                            {},
		"a certificate":                      {[]string{pki + "apiserver.crt"}, nil, []string{pki + "apiserver.crt", pki + "apiserver.key"}},
		"a key":                              {[]string{pki + "apiserver.key"}, nil, []string{pki + "apiserver.crt", pki + "apiserver.key"}},
		"the authority":                      {[]string{pki + "ca.crt"}, nil, signed},
		"the authority's key":                {[]string{pki + "ca.key"}, nil, signed},
		"etcd's authority":                   {[]string{pki + "etcd/ca.key"}, nil, []string{pki + "etcd/ca.crt", pki + "etcd/ca.key", pki + "apiserver-etcd-client.crt", pki + "apiserver-etcd-client.key"}},
		"a public key":                       {[]string{pki + "sa.pub"}, nil, []string{pki + "sa.pub", pki + "sa.key"}},
		"a kubeconfig":                       {[]string{"/etc/kubernetes/admin.conf"}, nil, []string{"/etc/kubernetes/admin.conf"}},
		"what kubelet shows":                 {[]string{kubelet + "crt"}, nil, []string{kubelet + "crt", kubelet + "key"}},
		"a key whose certificate is not yet": {nil, []string{pki + "apiserver.crt"}, []string{pki + "apiserver.crt", pki + "apiserver.key"}},
		"an operator's authority":            {nil, []string{pki + "ca.key"}, []string{pki + "ca.key"}},
		"everything":                         {all, nil, all},
	} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			r.m.Kubernetes.Refuses["init"] = noServer
			r.expect(member, "False JoinFailed")
			for _, path := range all {
				r.m.Files[path] = hosttest.FileState{Content: "whole", Mode: 0o600}
			}
			for _, path := range c.missing {
				delete(r.m.Files, path)
			}
			for _, path := range c.emptied {
				r.m.Files[path] = hosttest.FileState{Mode: 0o600}
			}
			delete(r.m.Kubernetes.Refuses, "init")
			r.m.Kubernetes.Leaves = func(hosttest.KubeadmRun) []hosttest.LeftFile {
				for _, path := range all {
					if _, there := r.m.Files[path]; there == slices.Contains(c.gone, path) {
						t.Errorf("%s is there: %v", path, there)
					}
				}
				return nil
			}
			r.runs()
			r.converge()
			if got := verbs(r.runs()); got != "init" {
				t.Errorf("kubeadm ran as %q", got)
			}
		})
	}
}

// The authority of a cluster that others have made signs for it still, and its kubelet has no token
// any more.
func TestAMasterThatLosesItsCopyOfTheAuthorityStaysJoined(t *testing.T) {
	r := second(t, api.RoleMaster)
	r.m.Kubernetes.Refuses["join"] = "error: error execution phase control-plane-join: timed out" + stack
	r.expect(member, "False JoinFailed")
	for _, left := range r.leaves(r.runs()[1]) {
		r.m.Files[left.Path] = left.FileState
	}
	r.node()
	const caKey, conf, admin = "/etc/kubernetes/pki/ca.key", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf"
	r.m.Files[caKey] = hosttest.FileState{Mode: 0o600}
	kept := map[string]hosttest.FileState{keyFile: r.m.Files[keyFile], conf: r.m.Files[conf], admin: r.m.Files[admin]}
	delete(r.m.Kubernetes.Refuses, "join")
	whole := r.m.Files[caFile]
	leaves := r.m.Kubernetes.Leaves
	r.m.Kubernetes.Leaves = func(run hosttest.KubeadmRun) []hosttest.LeftFile {
		for _, path := range []string{caFile, caKey} {
			if _, there := r.m.Files[path]; there {
				t.Errorf("%s is there", path)
			}
		}
		return append([]hosttest.LeftFile{{Path: caFile, FileState: whole}, {Path: caKey, FileState: whole}}, leaves(run)...)
	}
	r.expect(member, "True Joined")
	runs := r.runs()
	if got := verbs(runs); got != "join" {
		t.Fatalf("kubeadm ran as %q", got)
	}
	says(t, runs[0].Document("JoinConfiguration"), map[string]any{
		"discovery":  object{"file": object{"kubeConfigPath": admin}},
		"skipPhases": []any{"preflight", "check-etcd", "kubelet-start", "etcd-join", "kubelet-wait-bootstrap"},
	})
	for path, f := range kept {
		if r.m.Files[path] != f {
			t.Errorf("%s is another one", path)
		}
	}
}

// A manifest without other members begins a cluster of its own, unless etcd has data.
func TestTheManifestOfEtcdIsMadeAnewOnlyIfEtcdHasData(t *testing.T) {
	for name, c := range map[string]struct {
		data bool
		ran  string
	}{"it has": {true, "etcd"}, "it has not": {false, "join"}} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleMaster)
			r.m.Kubernetes.Refuses["join"] = "error: error execution phase etcd-join: timed out" + stack
			r.expect(member, "False JoinFailed")
			r.m.Files[etcdManifest] = hosttest.FileState{Mode: 0o600}
			if c.data {
				r.m.Files[wal] = hosttest.FileState{Content: "data", Mode: 0o600}
			}
			delete(r.m.Kubernetes.Refuses, "join")
			r.runs()
			r.converge()
			if got := verbs(r.runs()); got != c.ran {
				t.Errorf("kubeadm ran as %q", got)
			}
			r.expect(member, "True Joined")
		})
	}
}
