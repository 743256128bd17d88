package kubernetes_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/machine/kubeapi/kubeapitest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// validity is that of kubeadm's certificates, and third its last third.
const (
	validity = 365 * 24 * time.Hour
	third    = validity / 3
)

// certificates are those that kubeadm renews, in the order in which it does, as they are if it
// does so now: the key before the certificate, and none whose authority has no key here.
func (r *rig) certificates() (all []hosttest.LeftFile) {
	until := r.clock.Add(validity).Truncate(time.Second)
	for _, name := range []string{
		"admin.conf", "pki/apiserver", "pki/apiserver-etcd-client", "pki/apiserver-kubelet-client", "controller-manager.conf",
		"pki/etcd/healthcheck-client", "pki/etcd/peer", "pki/etcd/server", "pki/front-proxy-client", "scheduler.conf", "super-admin.conf",
	} {
		if _, ok := r.m.Files["/etc/kubernetes/pki/front-proxy-ca.key"]; !ok && strings.Contains(name, "front-proxy") {
			continue
		}
		pair, path := kubeapitest.KubeletPEM(r.T, name, until), "/etc/kubernetes/"+name
		file := func(path, content string) {
			all = append(all, hosttest.LeftFile{Path: path, FileState: hosttest.FileState{Content: content, Mode: 0o600}})
		}
		if filepath.Ext(name) == ".conf" {
			text := base64.StdEncoding.EncodeToString([]byte(pair))
			file(path, r.api.Kubeconfig("client-certificate-data: "+text+", client-key-data: "+text))
			continue
		}
		file(path+".key", pair)
		file(path+".crt", pair)
	}
	return all
}

// order is that in which components are restarted.
var order = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// master is one whose control plane was made now, and runs since a minute later.
func master(t *testing.T) *rig {
	r := first(t)
	for _, key := range []string{"ca", "etcd/ca", "front-proxy-ca"} {
		r.m.Files["/etc/kubernetes/pki/"+key+".key"] = hosttest.FileState{Content: "key", Mode: 0o600}
	}
	r.expect(healthy, "True Healthy")
	for _, f := range r.certificates() {
		r.m.Files[f.Path], r.m.Written[f.Path] = f.FileState, r.clock
	}
	r.clock = r.clock.Add(time.Minute)
	for i, name := range order {
		r.m.Processes = append(r.m.Processes, host.Process{PID: 40 - i, Program: name, Started: r.clock})
		r.m.Files["/etc/kubernetes/manifests/"+name+".yaml"] = hosttest.FileState{Content: name, Mode: 0o600}
	}
	r.etcd.members = []map[string]any{{"ID": "1", "name": "server-0", "clientURLs": []string{r.etcd.URL}}}
	r.runs()
	r.m.Trace = nil
	return r
}

// due lets the time go by until the certificates are, or almost are.
func (r *rig) due(left time.Duration) *rig {
	r.clock = r.clock.Add(-time.Minute).Truncate(time.Second).Add(validity - third - left)
	return r
}

// turn tells the master that it is its turn, or that it is not.
func (r *rig) turn(has bool) *rig {
	r.doc.ControlPlane.RenewCertificates = has
	r.doc.Generation++
	return r
}

// ended are the components that were asked to end since it was last asked.
func (r *rig) ended() (names []string) {
	for _, line := range r.m.Trace {
		if name, ok := strings.CutPrefix(line, "end "); ok {
			names = append(names, name)
		}
	}
	r.m.Trace = nil
	return names
}

// renewal asserts what was done since it was last asked.
func (r *rig) renewal(kubeadm string, ended ...string) {
	r.Helper()
	if got := verbs(r.runs()); got != kubeadm {
		r.Errorf("kubeadm ran as %q, want %q", got, kubeadm)
	}
	if got := r.ended(); !slices.Equal(got, ended) {
		r.Errorf("it has ended %q, want %q", got, ended)
	}
}

// facts asserts what a report says of the certificates.
func facts(t *testing.T, report converge.Report, until time.Time, due bool) {
	t.Helper()
	if f := report.ControlPlane; f == nil || f.RenewalDue != due || !f.CertificatesExpireAt.Equal(until.Truncate(time.Second)) {
		t.Errorf("it reports %+v, want %v, due: %v", f, until, due)
	}
}

func TestCertificatesAreRenewedInTheirLastThirdAndTurn(t *testing.T) {
	r := master(t)
	until := r.clock.Add(validity - time.Minute)
	facts(t, r.turn(true).expect(healthy, "True Healthy"), until, false)
	r.due(time.Second)
	facts(t, r.expect(healthy, "True Healthy"), until, false)
	r.renewal("")

	r.due(0)
	report := r.turn(false).expect(healthy, "True Healthy", "when it is this master's turn")
	facts(t, report, until, true)
	r.idle()
	r.renewal("")

	facts(t, r.turn(true).expect(healthy, "True Healthy"), r.clock.Add(validity), false)
	r.renewal("renew", order...)
	r.idle()
	r.turn(false)
	r.idle()
	r.renewal("")
}

// The turn may be another master's by now. keepalived is not touched meanwhile.
func TestNothingIsRenewedForADocumentFromDisk(t *testing.T) {
	r := sharing(master(t))
	r.settle()
	r.due(0).turn(true).m.Trace = nil
	report := r.engine.Converge(t.Context(), r.doc, converge.Options{})
	if c := report.Condition(healthy); c.Status != api.ConditionUnknown || c.Reason != api.ReasonWaitingForController || !report.ControlPlane.RenewalDue {
		t.Errorf("it reports %+v, %+v", c, report.ControlPlane)
	}
	r.renewal("")
	r.takesPart(true)
	r.expect(healthy, "True Healthy")
	r.renewal("renew", order...)
}

func TestACertificateThatIsNotValidNowIsDue(t *testing.T) {
	for name, years := range map[string]int{"expired": 2, "not valid yet, as the clock was wrong": -1} {
		t.Run(name, func(t *testing.T) {
			r := master(t)
			r.clock = r.clock.AddDate(years, 0, 0)
			for i := range r.m.Processes { // their starts are known by the clock of now
				r.m.Processes[i].Started = r.clock.Add(-time.Hour)
			}
			r.api.Down()                   // no client of the API has a valid certificate
			_ = r.turn(true).cutAt("etcd") // it would wait for the API server
			r.renewal("renew", "etcd")
		})
	}
}

// A process is restarted only if what it has read was renewed, also by a person, and only in the
// master's turn: nobody else sees to it that two masters are not without etcd at a time.
func TestOnlyWhatIsOlderThanItsCertificatesIsRestarted(t *testing.T) {
	for path, want := range map[string][]string{
		"pki/etcd/peer.crt": {"etcd"}, "pki/apiserver-etcd-client.crt": {"kube-apiserver"}, "controller-manager.conf": {"kube-controller-manager"},
		"scheduler.conf": {"kube-scheduler"}, "admin.conf": nil, "pki/etcd/healthcheck-client.crt": nil,
	} {
		t.Run(path, func(t *testing.T) {
			r := master(t)
			until := r.clock.Add(validity - time.Minute)
			r.clock = r.clock.Add(time.Hour)
			r.m.Written["/etc/kubernetes/"+path] = r.clock
			facts(t, r.expect(healthy, "True Healthy"), until, want != nil)
			r.idle()
			r.renewal("")
			facts(t, r.turn(true).expect(healthy, "True Healthy"), until, false)
			r.renewal("", want...)
			r.idle()
		})
	}
}

// It would be older than that for ever.
func TestAFileFromTheFutureRestartsNothing(t *testing.T) {
	r := master(t)
	r.m.Written["/etc/kubernetes/scheduler.conf"] = r.clock.Add(time.Hour)
	facts(t, r.turn(true).expect(healthy, "True Healthy"), r.clock.Add(validity-time.Minute), false)
	r.renewal("")
}

// The master that holds the shared address does not keep it while its API server is away.
func TestTheSharedAddressMovesBeforeARenewal(t *testing.T) {
	const moved = "restart " + keepalived
	for name, c := range map[string]struct {
		change func(*rig)
		want   []string
	}{
		"another master takes it": {
			func(r *rig) { r.m.Before = func(change string) { r.m.Keepalived.Elsewhere = change == moved } },
			[]string{moved, "end etcd", "end kube-apiserver"},
		},
		"no other master takes it": {func(*rig) {}, []string{moved, "end etcd", moved, "end kube-apiserver"}},
		"another master holds it": {
			func(r *rig) { r.m.Keepalived.Elsewhere = true },
			[]string{"end etcd", "end kube-apiserver"},
		},
		"there is no other master": {
			func(r *rig) { r.doc.Cluster.Masters = r.doc.Cluster.Masters[1:] },
			[]string{"end etcd", "end kube-apiserver"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(master(t))
			c.change(r)
			r.settle()
			r.due(0).turn(true)
			r.m.Trace = nil
			r.expect(healthy, "True Healthy")
			if got := r.did("restart", "end etcd", "end kube-apiserver"); !slices.Equal(got, c.want) {
				t.Errorf("it did %q, want %q", got, c.want)
			}
			r.m.Before = nil
			r.takesPart(true)
			r.idle()
		})
	}
}

// TestARenewalThatIsCutOffIsFinished ends the agent before each change that it or kubeadm makes.
func TestARenewalThatIsCutOffIsFinished(t *testing.T) {
	for n := 1; ; n++ {
		r := sharing(master(t))
		r.settle()
		r.due(0).turn(true).m.Trace = nil
		if !r.crashing(n) {
			if n < 20 {
				t.Fatalf("it has only %d changes", n-1)
			}
			return
		}
		at := strings.Join(r.m.Trace, ", ")
		r.runs()
		r.ended()
		r.restart()
		// The turn may be gone by then. It comes again, as the master is still due.
		if report := r.turn(false).converge(); report.ControlPlane == nil || !report.ControlPlane.RenewalDue {
			t.Errorf("cut off after %q: it reports %+v", at, report.ControlPlane)
		}
		r.renewal("")
		facts(t, r.turn(true).expect(healthy, "True Healthy"), r.clock.Add(validity), false)
		for _, p := range r.m.Processes {
			if p.PID < 1000 || p.PID > 2000 {
				t.Errorf("cut off after %q: %s was not restarted once: its PID is %d", at, p.Program, p.PID)
			}
		}
		r.idle()
	}
}

func TestWhatKeepsARenewalBack(t *testing.T) {
	key := func(r *rig, name string) { delete(r.m.Files, "/etc/kubernetes/pki/"+name+".key") }
	for name, c := range map[string]struct {
		change  func(*rig)
		want    string
		words   []string
		kubeadm string
		ended   []string
	}{
		"kubeadm fails": {
			func(r *rig) {
				r.m.Kubernetes.Refuses["renew"] = "[renew] Reading\nfailed to write new certificate apiserver"
			},
			"False RenewalFailed", []string{"renewing the certificates: kubeadm failed: failed to write"}, "renew", nil,
		},
		"a certificate that is cut off": {
			func(r *rig) {
				r.m.Files["/etc/kubernetes/pki/apiserver.crt"] = hosttest.FileState{Content: "-----BEGIN"}
				r.m.Kubernetes.Refuses["renew"] = "failed to load existing certificate apiserver"
			},
			"False RenewalFailed", []string{"failed to load existing", "/etc/kubernetes/pki/apiserver.crt has no certificate", "kubeadm init phase"}, "renew", nil,
		},
		"authorities without keys": {
			func(r *rig) { key(r, "ca"); key(r, "etcd/ca"); key(r, "front-proxy-ca") },
			"True Healthy", []string{"does not renew", "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/admin.conf"}, "", nil,
		},
		"one authority without its key": {
			func(r *rig) { key(r, "front-proxy-ca") },
			"True Healthy", []string{"does not renew /etc/kubernetes/pki/front-proxy-client.crt,"}, "renew", order,
		},
		"another etcd that is not healthy": {
			func(r *rig) {
				r.etcd.members = append(r.etcd.members, map[string]any{"ID": "2", "clientURLs": []string{r.api.URL}})
			},
			"False RenewalFailed", []string{"etcd is not restarted"}, "renew", nil,
		},
		"another etcd that is healthy": {
			func(r *rig) { r.etcd.members = append(r.etcd.members, r.etcd.members[0]) },
			"True Healthy", nil, "renew", order,
		},
		"another etcd that has no vote": {
			func(r *rig) { r.etcd.members = append(r.etcd.members, map[string]any{"ID": "2", "isLearner": true}) },
			"True Healthy", nil, "renew", order,
		},
		"an etcd without a leader": {
			func(r *rig) {
				r.etcd.status, r.etcd.said = http.StatusServiceUnavailable, map[string]any{"health": "false", "reason": "RAFT NO LEADER"}
			},
			"", nil, "renew", []string{"etcd"},
		},
		"an etcd elsewhere": {
			func(r *rig) {
				delete(r.m.Files, "/etc/kubernetes/pki/etcd/ca.crt")
				r.m.Processes = r.m.Processes[1:]
			},
			"True Healthy", nil, "renew", order[1:],
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := master(t).due(0).turn(true)
			c.change(r)
			if c.want == "" { // it would wait for minutes
				_ = r.cutAt("etcd")
			} else {
				r.expect(healthy, c.want, c.words...)
			}
			r.renewal(c.kubeadm, c.ended...)
		})
	}
}

// cutAt is a pass whose action is cut off once it has ended a component. It returns the error.
func (r *rig) cutAt(component string) (failed error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r.m.Before = func(change string) {
		if change == "end "+component {
			cancel()
		}
	}
	defer func() { r.m.Before = nil }()
	r.engine.Converge(ctx, r.doc, converge.Options{Confirmed: true, Grace: time.Millisecond, Observe: func(e converge.Event) {
		if e.Err != nil {
			failed = e.Err
		}
	}})
	return failed
}

func TestAComponentThatDoesNotComeBack(t *testing.T) {
	r := master(t).due(0).turn(true)
	delete(r.m.Answers, 10257)
	err := r.cutAt("kube-controller-manager")
	if err == nil || !strings.Contains(err.Error(), "RenewalFailed: kube-controller-manager was ended") || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("it says %v", err)
	}
	r.renewal("renew", order[:3]...)
}

func TestAMachineThatIsNoMemberReportsNoCertificates(t *testing.T) {
	r := machine(t, api.RoleMaster)
	r.doc.ControlPlane.RenewCertificates = true
	if report := r.converge(); report.ControlPlane != nil {
		t.Errorf("it reports %+v", report.ControlPlane)
	}
}
