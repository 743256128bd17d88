package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What kubeadm 1.34.4 prints.
const (
	stack     = "\nTo see the stack trace of this error execute with --v=5 or higher"
	preflight = "[init] Using Kubernetes version: v1.34.4\n[preflight] Running pre-flight checks\n\t[WARNING Swap]: swap is supported for cgroup v2 only\n" +
		"W1128 18:16:58.100000    1234 checks.go:830] detected that the sandbox image is inconsistent\n" +
		"[preflight] Some fatal errors occurred:\n%s[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`\n" +
		"error: error execution phase preflight: preflight checks failed" + stack
	noImage   = "\t[ERROR ImagePull]: failed to pull image registry.k8s.io/etcd:3.6.5-0: failed to pull image registry.k8s.io/etcd:3.6.5-0: rpc error: code = Unknown desc = dial tcp: lookup registry.k8s.io: no such host\n"
	portTaken = "\t[ERROR Port-10250]: Port 10250 is in use\n"
	noServer  = "[kubelet-check] Waiting for a healthy kubelet\nUnfortunately, an error has occurred, likely caused by:\n\t- The kubelet is not running\n\nerror: error execution phase wait-control-plane: failed while waiting for the control plane to start: kube-apiserver check failed at https://10.10.0.5:6443/livez" + stack
)

func TestAFailureIsExplainedInKubeadmsWords(t *testing.T) {
	for name, c := range map[string]struct {
		verb, said, condition, want string
		words                       []string
		not                         []string
	}{
		"an image": {
			"preflight", fmt.Sprintf(preflight, noImage), api.ConditionKubernetesInstalled, "False ImageUnavailable",
			[]string{"registry.k8s.io/etcd:3.6.5-0", "no such host"}, []string{"WARNING", "sandbox", "stack trace", "non-fatal"},
		},
		"a port": {
			"preflight", fmt.Sprintf(preflight, portTaken), api.ConditionKubernetesInstalled, "False PortInUse", []string{"Port 10250 is in use"}, nil,
		},
		"an image and a port": {
			"preflight", fmt.Sprintf(preflight, portTaken+noImage), api.ConditionKubernetesInstalled, "False ImageUnavailable", []string{"10250", "etcd"}, nil,
		},
		"the kernel": {
			"preflight", fmt.Sprintf(preflight, "\t[ERROR SystemVerification]: missing required cgroups: memory\n"), api.ConditionKubernetesInstalled, "False ModuleMissing", []string{"memory"}, nil,
		},
		"the engine": {
			"preflight", fmt.Sprintf(preflight, "\t[ERROR CRI]: container runtime is not running\n"), api.ConditionKubernetesInstalled, "False EngineNotRunning", nil, nil,
		},
		"the configuration": {
			"validate", `error unmarshaling configuration: unknown field "podSubnets"` + stack, api.ConditionKubernetesInstalled, "False JoinFailed", []string{"podSubnets"}, nil,
		},
		"the API server": {
			"init", noServer, member, "False JoinFailed", []string{"kubeadm failed: error execution phase wait-control-plane", "10.10.0.5:6443"}, []string{"kubelet-check", "stack trace"},
		},
		"a secret": {
			"init", "error: token " + token + " and key " + certificateKey, member, "False JoinFailed", []string{"(redacted)"}, nil,
		},
		"no word": {"init", "", member, "False JoinFailed", []string{"exit status 1"}, nil},
		"too many words": {
			"init", "error: " + strings.Repeat("x", 5000) + " the end", member, "False JoinFailed", []string{"the end", "…"}, []string{strings.Repeat("x", 800)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := first(t)
			r.m.Kubernetes.Refuses[c.verb] = c.said
			report := r.expect(c.condition, c.want, c.words...)
			for _, word := range c.not {
				if message := report.Condition(c.condition).Message; strings.Contains(message, word) {
					t.Errorf("the message %q has %q", message, word)
				}
			}
			if c.condition != member {
				if got := verbs(r.runs()); strings.Contains(got, "init ") {
					t.Errorf("kubeadm ran as %q", got)
				}
				r.expect(member, "False NotJoined", "KubernetesInstalled")
			}
			delete(r.m.Kubernetes.Refuses, c.verb)
			r.expect(member, "True Joined")
		})
	}
}

// What a machine is refused for is not what an attempt of ours has left.
func TestAMachineThatKubeadmRefusesHasLeftNothing(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.m.Kubernetes.Refuses["join"] = "error: unable to select an IP from default routes" + stack
	r.expect(member, "False JoinFailed", "unable to select an IP")
	r.m.Kubernetes.Refuses["join"] = fmt.Sprintf(preflight, portTaken)
	for range 2 {
		r.expect(member, "False PortInUse", "Port 10250")
	}
	for _, run := range r.runs() {
		says(t, run.Document("JoinConfiguration"), map[string]any{"nodeRegistration ignorePreflightErrors": nil})
	}
	r.m.Kubernetes.Refuses["join"] = "error: error execution phase kubelet-start: timed out" + stack
	r.expect(member, "False JoinFailed", "timed out")
	r.runs()
	delete(r.m.Kubernetes.Refuses, "join")
	r.expect(member, "True Joined")
	ignoresWhatIsLeft(t, r, r.runs()[0])
}

// It says no phase, and may have come to any.
func TestAKubeadmThatPanicsMayHaveBegun(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.m.Kubernetes.Refuses["join"] = "panic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV: segmentation violation]\n\ngoroutine 1 [running]:\nmain.main()"
	r.expect(member, "False JoinFailed", "panic: runtime error")
	r.runs()
	delete(r.m.Kubernetes.Refuses, "join")
	r.expect(member, "True Joined")
	ignoresWhatIsLeft(t, r, r.runs()[0])
}

func TestAnAuthorityIsNeverOverwritten(t *testing.T) {
	foreign := hosttest.FileState{Content: first(t).leaves(hosttest.KubeadmRun{Verb: "init"})[0].Content, Mode: 0o644}
	for name, change := range map[string]func(*rig){
		"of another cluster": func(*rig) {},
		"that this machine has begun to make": func(r *rig) {
			r.m.Files[state+"/inventory.json"] = hosttest.FileState{Content: `{"kubernetes":{"attempt":"init"}}`, Mode: 0o600}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleMaster)
			r.doc.Cluster.CACertificateHash = "sha256:" + strings.Repeat("0", 64)
			r.m.Files[caFile] = foreign
			change(r)
			r.expect(member, "False JoinFailed", "authority of another cluster", "kubeadm reset")
			if got := verbs(r.runs()); strings.Contains(got, "join") || strings.Contains(got, "init") {
				t.Errorf("kubeadm ran as %q", got)
			}
			if r.m.Files[caFile] != foreign {
				t.Error("the authority is another one")
			}
		})
	}
}

// The controller may learn of a cluster before its first master has finished it.
func TestAClusterThatIsBegunIsFinishedByItsMaster(t *testing.T) {
	r := first(t)
	r.m.Kubernetes.Refuses["init"] = noServer
	report := r.expect(member, "False JoinFailed")
	if report.Cluster != nil {
		t.Errorf("an unfinished cluster is reported: %+v", report.Cluster)
	}
	for _, left := range r.leaves(hosttest.KubeadmRun{Verb: "init"})[:4] {
		r.m.Files[left.Path] = left.FileState
	}
	if _, there := r.m.Files[kubeadm.KubeletKubeconfig]; !there {
		t.Fatal("the situation is another one")
	}
	r.doc.Cluster.Initialize, r.doc.Cluster.CACertificateHash = false, r.hash
	delete(r.m.Kubernetes.Refuses, "init")
	r.runs()
	r.expect(member, "True Joined")
	if got := verbs(r.runs()); got != "init" {
		t.Errorf("kubeadm ran as %q", got)
	}
}

// A master that was joining, and is told to make the cluster since the others are gone, has
// certificates and an etcd of a cluster that is not there any more.
func TestAHalfJoinedMasterMakesNoCluster(t *testing.T) {
	r := second(t, api.RoleMaster)
	r.m.Kubernetes.Refuses["join"] = "error: error execution phase etcd-join: timed out" + stack
	r.expect(member, "False JoinFailed")
	r.runs()
	for _, left := range r.leaves(hosttest.KubeadmRun{Verb: "init"}) {
		if left.Path == caFile || left.Path == wal {
			r.m.Files[left.Path] = left.FileState
		}
	}
	r.doc.Cluster.Initialize, r.doc.Cluster.CACertificateHash = true, ""
	r.expect(member, "False JoinFailed", "kubeadm reset", caFile+" and /var/lib/etcd/member,")
	delete(r.m.Files, caFile)
	r.expect(member, "False JoinFailed", "has /var/lib/etcd/member,")
	if runs := r.runs(); runs != nil {
		t.Errorf("kubeadm ran as %q", verbs(runs))
	}
	delete(r.m.Files, wal)
	r.expect(member, "True Joined")
	if got := verbs(r.runs()); got != "init" {
		t.Errorf("kubeadm ran as %q", got)
	}
}

// kubeadm may be killed when etcd has its vote, and kubelet has no credentials yet.
func TestAnEtcdMemberThatVotesIsNotAddedAgain(t *testing.T) {
	member := func(address string, learner bool) map[string]any {
		return map[string]any{"ID": "1", "name": "server-0", "peerURLs": []string{"https://" + address + ":2380"}, "isLearner": learner}
	}
	for name, c := range map[string]struct {
		members []map[string]any
		skips   any
	}{
		"it votes":                        {[]map[string]any{member("192.0.2.9", false), member("127.0.0.1", false)}, []any{"etcd-join"}},
		"it has no vote":                  {nil, nil},
		"it has no vote, as others say":   {[]map[string]any{member("127.0.0.1", true)}, nil},
		"it was not added before the end": {[]map[string]any{member("192.0.2.9", false)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleMaster)
			r.m.Kubernetes.Refuses["join"] = "error: error execution phase kubelet-wait-bootstrap: timed out" + stack
			r.etcd.members = c.members
			r.expect(api.ConditionClusterMember, "False JoinFailed")
			says(t, r.runs()[1].Document("JoinConfiguration"), map[string]any{"skipPhases": nil})
			r.expect(api.ConditionClusterMember, "False JoinFailed")
			says(t, r.runs()[0].Document("JoinConfiguration"), map[string]any{"skipPhases": c.skips})
		})
	}
}
