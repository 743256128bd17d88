package kubernetes_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/clustermember"
	"github.com/nodehitch/nodehitch/agent/role/kubernetes/kubeadm"
	"github.com/nodehitch/nodehitch/shared/api"
)

const member = api.ConditionClusterMember

// object is one of a document.
type object = map[string]any

// at is a value in a document.
func at(d object, path ...string) any {
	var value any = d
	for _, name := range path {
		inside, _ := value.(object)
		value = inside[name]
	}
	return value
}

// says compares values of a document, by their paths.
func says(t *testing.T, d object, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if got := at(d, strings.Split(path, " ")...); !reflect.DeepEqual(got, value) {
			t.Errorf("%s: %s is %v (%T), want %v", d["kind"], path, got, got, value)
		}
	}
}

func TestTheFirstMasterMakesTheClusterOnce(t *testing.T) {
	r := first(t)
	r.doc.Cluster.ExternalAddress = "203.0.113.7"
	r.doc.Kubernetes.ImageRepository = "10.10.0.7:5000/k8s"
	report := r.expect(member, "True Joined", "Node server-0 is Ready")
	if report.Cluster == nil || report.Cluster.CACertificateHash != r.hash {
		t.Errorf("it reports %+v", report.Cluster)
	}
	runs := r.runs()
	if got := verbs(runs); got != "preflight init" {
		t.Fatalf("kubeadm ran as %q", got)
	}
	port := float64(r.address.Port())
	for _, run := range runs {
		says(t, run.Document("InitConfiguration"), map[string]any{
			"apiVersion": "kubeadm.k8s.io/v1beta4", "certificateKey": certificateKey,
			"bootstrapTokens":                        []any{object{"token": token, "ttl": "24h0m0s"}},
			"localAPIEndpoint":                       object{"advertiseAddress": "127.0.0.1", "bindPort": port},
			"nodeRegistration criSocket":             "unix:///run/containerd/containerd.sock",
			"nodeRegistration kubeletExtraArgs":      []any{object{"name": "provider-id", "value": "openstack:///" + serverID}},
			"nodeRegistration ignorePreflightErrors": nil,
		})
		says(t, run.Document("ClusterConfiguration"), map[string]any{
			"kubernetesVersion": "v1.34.4", "controlPlaneEndpoint": r.address.String(), "imageRepository": "10.10.0.7:5000/k8s",
			"networking": object{"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/12"}, "apiServer certSANs": []any{"203.0.113.7"},
		})
	}
	r.idle()
	r.restart()
	r.idle()
	r.doc.Cluster.Initialize, r.doc.Cluster.CACertificateHash = false, r.hash // the controller has learned of it
	r.expect(member, "True Joined")
	r.idle()
}

func TestAWorkerJoinsOnce(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.expect(member, "True Joined")
	runs := r.runs()
	if got := verbs(runs); got != "join" {
		t.Fatalf("kubeadm ran as %q", got)
	}
	says(t, runs[0].Document("JoinConfiguration"), map[string]any{
		"discovery bootstrapToken":               object{"token": token, "apiServerEndpoint": r.address.String(), "caCertHashes": []any{r.hash}},
		"controlPlane":                           nil,
		"nodeRegistration kubeletExtraArgs":      []any{object{"name": "provider-id", "value": "openstack:///" + serverID}},
		"nodeRegistration ignorePreflightErrors": nil,
	})
	r.idle()
}

func TestAFurtherMasterJoinsTheControlPlane(t *testing.T) {
	r := second(t, api.RoleMaster)
	r.expect(member, "True Joined")
	runs := r.runs()
	if got := verbs(runs); got != "preflight join" {
		t.Fatalf("kubeadm ran as %q", got)
	}
	says(t, runs[1].Document("JoinConfiguration"), map[string]any{
		"controlPlane": object{"certificateKey": certificateKey, "localAPIEndpoint": object{"advertiseAddress": "127.0.0.1", "bindPort": float64(r.address.Port())}},
	})
	r.idle()
}

// Any of them may speak for the cluster when an etcd member is left of a master that was deleted.
func TestEachMasterKnowsTheAddressesThatMastersHad(t *testing.T) {
	r := second(t, api.RoleMaster)
	r.expect(member, "True Joined")
	r.doc.Cluster.Masters[0] = api.ClusterServer{ServerID: "9", Name: "new", Addresses: []string{"192.0.2.10", "fd00::10"}}
	r.converge()
	r.idle()
	r.restart()
	r.idle()
	joined := kubeadm.New(kubeadm.Options{Host: r.m.Host(), StateDirectory: state, ServerID: serverID})
	if got, err := joined.Masters(); err != nil || !slices.Equal(got, []string{"127.0.0.1", "192.0.2.10", "192.0.2.9", "fd00::10"}) {
		t.Errorf("the masters had %q, %v", got, err)
	}
}

func TestAMachineWaitsForItsClusterWithItsImagesPulled(t *testing.T) {
	r := machine(t, api.RoleMaster)
	r.expect(member, "False WaitingForCluster")
	if got := verbs(r.runs()); got != "preflight" {
		t.Errorf("kubeadm ran as %q", got)
	}
	r.idle()
	r.doc.Cluster.CACertificateHash = r.hash
	r.expect(member, "True Joined")
	if got := verbs(r.runs()); got != "join" {
		t.Errorf("kubeadm ran as %q", got)
	}
}

func TestAMemberIsNotJoinedAgain(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"told to make a cluster": func(r *rig) { r.doc.Cluster.Initialize, r.doc.Cluster.CACertificateHash = true, "" },
		"of another cluster":     func(r *rig) { r.doc.Cluster.CACertificateHash = "sha256:" + strings.Repeat("0", 64) },
		"joined by others":       func(r *rig) { delete(r.m.Files, state+"/inventory.json") },
	} {
		t.Run(name, func(t *testing.T) {
			r := second(t, api.RoleWorker)
			r.expect(member, "True Joined")
			r.runs()
			change(r)
			r.restart()
			r.expect(member, "True Joined")
			if runs := r.runs(); runs != nil {
				t.Errorf("kubeadm ran as %q", verbs(runs))
			}
		})
	}
}

// Nothing of a cluster is done for a document of long ago, and nothing at all in a dry run.
func TestNothingIsMadeForADocumentFromDiskOrInADryRun(t *testing.T) {
	r := first(t)
	report := r.engine.Converge(t.Context(), r.doc, converge.Options{DryRun: true, Confirmed: true})
	if n := r.m.Changes(); report.Changed || !n.None() {
		t.Errorf("a dry run changed %s", n)
	}
	r.engine.Converge(t.Context(), r.doc, converge.Options{})
	if got := verbs(r.runs()); got != "preflight" {
		t.Errorf("kubeadm ran as %q", got)
	}
}

func TestWithoutTheSectionNothingIsDone(t *testing.T) {
	r := first(t)
	r.doc.Kubernetes, r.doc.ControlPlane = nil, nil
	report := r.expect(member, "False NotJoined", "no program has joined this machine")
	if runs := r.runs(); runs != nil || report.Condition(api.ConditionEngineReady) != nil || report.Condition(api.ConditionKubernetesInstalled) != nil {
		t.Errorf("kubeadm ran as %q; %+v", verbs(runs), report.Conditions)
	}
}

// crashing is one pass that ends before its n-th change; false if it has fewer.
func (r *rig) crashing(n int) (crashed bool) {
	r.m.CrashAt = n
	defer func() {
		r.m.CrashAt = 0
		if v := recover(); v != nil {
			if _, ok := v.(hosttest.Crash); !ok {
				panic(v)
			}
			crashed = true
		}
	}()
	for _, step := range r.steps() { // the engine would take the panic for an error
		plan, err := step.Plan(r.Context(), r.doc)
		if waits := (*converge.Waiting)(nil); err != nil && len(plan.Actions) > 0 && !errors.As(err, &waits) {
			r.Fatalf("planning: %v", err)
		}
		for _, a := range plan.Actions {
			if err := a.Do(r.Context()); err != nil {
				r.Fatalf("%s: %v", a.Summary, err)
			}
		}
	}
	return false
}

// TestACrashBeforeEachChange ends the agent, or the machine, before each change that it or
// kubeadm makes, and wants the same end. What kubeadm has begun is finished by kubeadm.
func TestACrashBeforeEachChange(t *testing.T) {
	ends := map[string]func(*hosttest.Machine){
		"agent": func(*hosttest.Machine) {}, "reboot": (*hosttest.Machine).Reboot, "power": (*hosttest.Machine).PowerCut,
	}
	for name, situation := range map[string]func(*testing.T) *rig{
		"init":        first,
		"worker":      func(t *testing.T) *rig { return second(t, api.RoleWorker) },
		"join master": func(t *testing.T) *rig { return second(t, api.RoleMaster) },
	} {
		for end, ended := range ends {
			for n := 1; ; n++ {
				crashed := false
				t.Run(fmt.Sprintf("%s, %s, before change %d", name, end, n), func(t *testing.T) {
					r := situation(t)
					if crashed = r.crashing(n); !crashed {
						if n < 15 {
							t.Errorf("there are only %d changes", n-1)
						}
						return
					}
					_, kubelet := r.m.Files[keyFile] // kubelet.conf is there before its certificate
					_, done := r.m.Files["/var/lib/kubelet/joined"]
					was := verbs(r.runs())
					ended(r.m)
					r.m.Units["containerd.service"].Active = true
					r.restart()
					if end == "power" { // what was lost is put back before kubeadm runs again
						r.converge()
					}
					r.expect(member, "True Joined")
					if r.doc.Role == api.RoleMaster {
						r.expect(api.ConditionControlPlaneHealthy, "True Healthy")
					}
					runs := slices.DeleteFunc(r.runs(), func(run hosttest.KubeadmRun) bool { return run.Verb == "etcd" })
					if strings.HasSuffix(was, "init") || strings.HasSuffix(was, "join") { // it was cut off
						finished := kubelet && r.doc.Role == api.RoleWorker
						switch {
						case finished && runs != nil:
							t.Errorf("a member is joined again: %q", verbs(runs))
						case finished:
						case len(runs) != 1 || runs[0].Verb != was[len(was)-4:]:
							t.Errorf("kubeadm ran as %q, then as %q", was, verbs(runs))
						case kubelet && runs[0].Verb == "join":
							says(t, runs[0].Document("JoinConfiguration"), map[string]any{
								"discovery": object{"file": object{"kubeConfigPath": "/etc/kubernetes/admin.conf"}},
								"skipPhases": []any{
									"preflight", "control-plane-prepare", "check-etcd", "kubelet-start", "etcd-join", "kubelet-wait-bootstrap",
								},
							})
						default:
							ignoresWhatIsLeft(t, r, runs[0])
						}
					}
					if _, now := r.m.Files["/var/lib/kubelet/joined"]; !now && !kubelet || done && !now {
						t.Error("kubeadm has not come to its end")
					}
					if f, there := r.m.Files["/etc/systemd/system/kubelet.service.d/nodehitch.conf"]; there || strings.Contains(r.m.Units["kubelet.service"].Loaded, "sync") {
						t.Errorf("the kubelet of a member waits for the disk: %s", f.Content)
					}
					r.whole()
					r.m.PowerCut()
					r.m.Units["containerd.service"].Active = true
					r.whole()
					r.idle()
				})
				if !crashed {
					break
				}
			}
		}
	}
}

func ignoresWhatIsLeft(t *testing.T, r *rig, run hosttest.KubeadmRun) {
	t.Helper()
	kind := "JoinConfiguration"
	if run.Verb == "init" {
		kind = "InitConfiguration"
	}
	ignored, _ := at(run.Document(kind), "nodeRegistration", "ignorePreflightErrors").([]any)
	text := fmt.Sprint(ignored)
	for _, check := range []string{"FileAvailable--etc-kubernetes-kubelet.conf", "DirAvailable--var-lib-etcd", fmt.Sprint("Port-", r.address.Port()), "Port-2379"} {
		if !strings.Contains(text, check) {
			t.Errorf("%s is not among the ignored checks: %s", check, text)
		}
	}
	for _, check := range []string{"all", "ImagePull", "Swap", "CRI"} {
		if strings.Contains(text, check) {
			t.Errorf("%s is ignored, which no attempt leaves", check)
		}
	}
}

// A program of the user's that reads the file would join the machine beside the agent.
func TestNoProgramIsToldToJoinTheMachineToo(t *testing.T) {
	r := second(t, api.RoleWorker)
	r.m.Files[clustermember.File] = hosttest.FileState{Content: "{}", Mode: 0o600}
	r.expect(member, "True Joined")
	if f, there := r.m.Files[clustermember.File]; there {
		t.Errorf("%s is there: %s", clustermember.File, f.Content)
	}
	r.idle()
}
