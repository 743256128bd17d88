package kubernetes_test

import (
	"errors"
	"fmt"
	"net/netip"
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

const (
	shared     = "10.10.0.9"
	keepalived = "keepalived.service"
)

// sharing is a master of those that share the endpoint's address.
func sharing(r *rig) *rig {
	r.doc.ControlPlane.SharedAddress = shared
	return r
}

// settle converges until nothing is left to do.
func (r *rig) settle() {
	r.Helper()
	for range 5 {
		if !r.converge().Changed {
			return
		}
	}
	r.Fatalf("it does not come to an end\ntrace: %s", strings.Join(r.m.Trace, "\n       "))
}

// holds reports whether the machine has the address.
func (r *rig) holds(address string) bool {
	return slices.Contains(r.m.Kernel.Addresses["lo"], netip.MustParseAddr(address))
}

// takesPart wants keepalived to run, now and after each boot, with the file in place.
func (r *rig) takesPart(want bool) {
	r.Helper()
	file, exists := r.m.Files[host.KeepalivedConfig]
	unit := r.m.Units[keepalived]
	switch {
	case want && (unit == nil || !unit.Active || !unit.Enabled || !exists || r.m.Keepalived.Loaded != file.Content || file.Mode != 0o600):
		r.Errorf("keepalived is %+v with %q, the file is %+v", unit, r.m.Keepalived.Loaded, file)
	case !want && (unit != nil && (unit.Active || unit.Enabled) || exists || r.holds(shared)):
		r.Errorf("keepalived is %+v, the file is %+v", unit, file)
	}
}

// did are the lines of the trace that begin so.
func (r *rig) did(begin ...string) (lines []string) {
	for _, line := range r.m.Trace {
		if slices.ContainsFunc(begin, func(b string) bool { return strings.HasPrefix(line, b) }) {
			lines = append(lines, line)
		}
	}
	r.m.Trace = nil
	return lines
}

func TestTheFirstMasterMakesTheClusterAtTheSharedAddress(t *testing.T) {
	r := sharing(first(t))
	r.settle()
	r.takesPart(true)
	r.expect(member, "True Joined")
	r.expect(healthy, "True Healthy", "this master holds "+shared)
	want := []string{"install [keepalived]", "write " + host.KeepalivedConfig, "start " + keepalived, "kubeadm init"}
	if got := r.did("install", "write "+host.KeepalivedConfig, "start keepalived", "reload keepalived", "restart", "kubeadm init"); !slices.Equal(got, want) {
		t.Errorf("it did %q, want %q", got, want)
	}
	for _, run := range r.runs() {
		says(t, run.Document("InitConfiguration"), map[string]any{"nodeRegistration kubeletExtraArgs": []any{
			object{"name": "provider-id", "value": "openstack:///" + serverID}, object{"name": "node-ip", "value": "127.0.0.1"},
		}})
	}
	r.idle()
	r.restart()
	r.idle()
	r.m.Reboot()
	r.m.Units["containerd.service"].Active = true
	if !r.holds(shared) {
		t.Error("it does not hold the address after a boot")
	}
	r.idle()
}

// A member of another cluster answers at its API server too, and for other kubelets.
func TestAMasterOfAnotherClusterDoesNotTakePart(t *testing.T) {
	other := kubeapitest.KubeletPEM(t, "another authority", time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
	}{
		"of this one":            {func(*rig) {}, "True Healthy"},
		"of another one":         {func(r *rig) { r.doc.Cluster.CACertificateHash = "sha256:" + strings.Repeat("0", 64) }, "False AddressUnavailable"},
		"of one that is not yet": {func(r *rig) { r.doc.Cluster.CACertificateHash = "" }, "True Healthy"},
		"whose authority is being replaced": {func(r *rig) {
			r.m.Files[caFile] = hosttest.FileState{Content: other + r.m.Files[caFile].Content, Mode: 0o644}
		}, "True Healthy"},
		"whose authority has been replaced, but for kubelet": {func(r *rig) { r.m.Files[caFile] = hosttest.FileState{Content: other, Mode: 0o644} }, "True Healthy"},
		"whose authority cannot be read":                     {func(r *rig) { r.m.Files[caFile] = hosttest.FileState{Mode: 0o644} }, "True Healthy"},
		"that kubelet cannot name": {func(r *rig) {
			r.m.Files[caFile] = hosttest.FileState{Content: other, Mode: 0o644}
			r.m.Files["/etc/kubernetes/kubelet.conf"] = hosttest.FileState{Mode: 0o600}
		}, "True Healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(second(t, api.RoleMaster))
			r.settle()
			r.takesPart(true)
			c.change(r)
			r.settle()
			takes := strings.HasPrefix(c.want, "True")
			r.takesPart(takes)
			report := r.expect(healthy, c.want)
			if said := report.Condition(healthy).Message; !takes && !strings.Contains(said, "takes no part in holding "+shared+": "+caFile+" and /etc/kubernetes/kubelet.conf have the authority of another cluster, expected the one with the hash sha256:0000") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

func TestKeepalivedsConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig)
		has    []string
		not    string
	}{
		"of one of three": {func(r *rig) {
			r.doc.Cluster.Masters = append(r.doc.Cluster.Masters, api.ClusterServer{ServerID: "3", Name: "m", Addresses: []string{"192.0.2.10"}})
		}, []string{
			"    interface lo\n    virtual_router_id 9\n", "    unicast_src_ip 127.0.0.1\n    unicast_peer {\n        192.0.2.10\n        192.0.2.9\n    }\n",
			"    virtual_ipaddress {\n        10.10.0.9\n    }\n", "/readyz\"\n", "    enable_script_security\n",
		}, ""},
		"of the only one": {
			func(r *rig) { r.doc.Cluster.Masters = r.doc.Cluster.Masters[1:] },
			[]string{"interface lo", "10.10.0.9"}, "unicast",
		},
		"of a last byte that is no id": {
			func(r *rig) { r.doc.ControlPlane.SharedAddress = "10.10.1.0" }, []string{"virtual_router_id 255\n"}, "",
		},
		"of IPv6": {func(r *rig) {
			r.doc.ControlPlane.SharedAddress = "fd00::1:9"
			r.doc.Cluster.Masters[0].Addresses = []string{"192.0.2.9", "fd00::6"}
			r.doc.Cluster.Masters[1].Addresses = []string{"fd00::5"}
			r.m.Kernel.Addresses["lo"] = append(r.m.Kernel.Addresses["lo"], netip.MustParseAddr("fd00::5"))
		}, []string{"unicast_src_ip fd00::5\n    unicast_peer {\n        fd00::6\n    }", "        fd00::1:9\n", "virtual_router_id 9\n", " https://[fd00::5]:"}, "192.0.2.9"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(first(t))
			c.change(r)
			r.settle()
			r.takesPart(true)
			got := r.m.Keepalived.Loaded
			for _, want := range c.has {
				if !strings.Contains(got, want) {
					t.Errorf("it lacks %q:\n%s", want, got)
				}
			}
			if c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("it has %q:\n%s", c.not, got)
			}
		})
	}
}

// A cluster must not be made at an address that leads to another machine.
func TestAMasterWithoutTheAddressMakesNoCluster(t *testing.T) {
	r := sharing(first(t))
	r.m.Keepalived.Elsewhere = true
	for range 3 {
		r.expect(member, "False NotJoined", shared, "ControlPlaneHealthy")
	}
	r.expect(healthy, "False AddressUnavailable", shared, "journalctl -u keepalived")
	if got := verbs(r.runs()); got != "preflight" {
		t.Errorf("kubeadm ran as %q", got)
	}
	r.m.Keepalived.Elsewhere = false
	r.m.Reboot()
	r.m.Units["containerd.service"].Active = true
	r.expect(member, "True Joined")
}

// Behind a master that has no control plane yet, nothing would answer.
func TestAFurtherMasterTakesPartOnceItHasJoined(t *testing.T) {
	r := sharing(second(t, api.RoleMaster))
	r.m.Keepalived.Elsewhere = true
	r.m.Kubernetes.Refuses["join"] = "error: error execution phase etcd-join: timed out" + stack
	r.expect(member, "False JoinFailed")
	r.expect(healthy, "False WaitingForCluster")
	if r.m.Installed[host.Keepalived] {
		t.Error("keepalived is installed")
	}
	r.takesPart(false)
	delete(r.m.Kubernetes.Refuses, "join")
	r.expect(member, "True Joined")
	r.expect(healthy, "True Healthy", "another master holds "+shared)
	r.takesPart(true)
	r.idle()
}

// The master that has begun the cluster finishes it at the address.
func TestAClusterThatIsBegunKeepsItsAddress(t *testing.T) {
	r := sharing(first(t))
	r.settle()
	r = sharing(first(t))
	r.converge()
	r.m.Kubernetes.Refuses["init"] = noServer
	r.expect(member, "False JoinFailed")
	r.doc.Cluster.Initialize, r.doc.Cluster.CACertificateHash = false, r.hash
	r.converge()
	r.takesPart(true)
}

func TestKeepalivedIsReloadedAndNeverRestarted(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"another master": func(r *rig) { r.doc.Cluster.Masters[0].Addresses = []string{"192.0.2.77"} },
		"changed by others": func(r *rig) {
			r.m.Files[host.KeepalivedConfig] = hosttest.FileState{Content: "vrrp_instance x {}", Mode: 0o644}
			r.m.Keepalived.Loaded = "vrrp_instance x {}"
		},
		"not loaded before a crash": func(r *rig) {
			r.doc.Cluster.Masters[0].Addresses = []string{"192.0.2.77"}
			r.m.Fail["reload"] = errors.New("killed")
			r.expect(healthy, "False AddressUnavailable", "killed")
			delete(r.m.Fail, "reload")
			r.m.Trace = nil
			r.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(first(t))
			r.settle()
			r.m.Trace = nil
			change(r)
			r.expect(healthy, "True Healthy")
			r.takesPart(true)
			if got := r.did("start", "stop", "restart", "reload keepalived"); !slices.Equal(got, []string{"reload " + keepalived}) {
				t.Errorf("it did %q", got)
			}
			r.idle()
		})
	}
}

func TestKeepalivedIsStartedAgain(t *testing.T) {
	r := sharing(first(t))
	r.settle()
	units := r.m.Host().Units
	if err := errors.Join(units.Stop(t.Context(), keepalived), units.Disable(t.Context(), keepalived), units.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.expect(healthy, "True Healthy")
	r.takesPart(true)
}

func TestWithoutASharedAddressKeepalivedIsLeft(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"the endpoint is a server's":   func(r *rig) { r.doc.ControlPlane.SharedAddress = "" },
		"the machine has been reset":   func(r *rig) { delete(r.m.Files, "/etc/kubernetes/kubelet.conf"); r.doc.Cluster.Initialize = false },
		"the package has been removed": func(r *rig) { r.doc.ControlPlane.SharedAddress = ""; delete(r.m.Units, keepalived) },
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(first(t))
			r.settle()
			change(r)
			r.settle()
			if name == "the package has been removed" {
				r.m.Kernel.Addresses["lo"] = nil
			}
			r.takesPart(false)
			r.idle()
		})
	}
	r := sharing(first(t))
	r.settle()
	r.doc.ControlPlane = nil // it is withheld
	r.settle()
	r.takesPart(true)
}

func TestKeepalivedOfOthersIsLeftAlone(t *testing.T) {
	foreign := hosttest.FileState{Content: "vrrp_instance of_the_operator {}", Mode: 0o644}
	r := sharing(first(t))
	r.m.Files[host.KeepalivedConfig] = foreign
	hosttest.Runs(keepalived)(r.m)
	r.expect(healthy, "False AddressUnavailable", host.KeepalivedConfig, "move that file away")
	r.doc.ControlPlane.SharedAddress = ""
	r.settle()
	if r.m.Files[host.KeepalivedConfig] != foreign || !r.m.Units[keepalived].Active {
		t.Errorf("it is %+v, keepalived %+v", r.m.Files[host.KeepalivedConfig], r.m.Units[keepalived])
	}
	r = sharing(first(t))
	r.m.Files[host.KeepalivedConfig] = foreign
	r.expect(healthy, "False AddressUnavailable")
	delete(r.m.Files, host.KeepalivedConfig)
	r.settle()
	r.takesPart(true)
}

func TestTheSampleOfThePackageIsReplaced(t *testing.T) {
	r := sharing(first(t))
	r.m.Keepalived.Sample = "! Configuration File for keepalived"
	r.settle()
	r.takesPart(true)
}

func TestWhatKeepsTheAddressAway(t *testing.T) {
	for name, c := range map[string]struct {
		breaks, mends func(*rig)
		want          string
		words         []string
	}{
		"no package": {
			func(r *rig) {
				r.m.Unavailable = &host.UnavailableError{Package: "keepalived", Detail: "no such package"}
			},
			func(r *rig) { r.m.Unavailable = nil }, "False PackageUnavailable", []string{"no such package"},
		},
		"a configuration that is refused": {
			func(r *rig) { r.m.Keepalived.Refuses = "(Line 3) Unknown keyword" },
			func(r *rig) { r.m.Keepalived.Refuses = "" }, "False AddressUnavailable", []string{"Unknown keyword", "not put in force"},
		},
		"a check that takes too long": {
			func(r *rig) {
				r.m.Fail["keepalived"] = &host.CommandError{Argv: []string{"keepalived"}, Code: -1, Err: errors.New("it took longer than 30s")}
			},
			func(r *rig) { delete(r.m.Fail, "keepalived") }, "Unknown InternalError", []string{"it took longer than 30s"},
		},
		"a service that does not start": {
			func(r *rig) { r.m.Fail["start"] = errors.New("exit-code") },
			func(r *rig) { delete(r.m.Fail, "start") }, "False AddressUnavailable", []string{"exit-code", keepalived},
		},
		"no interface": {
			func(r *rig) { r.doc.Cluster.Masters[1].Addresses = []string{"192.0.2.5"} },
			func(r *rig) { r.doc.Cluster.Masters[1].Addresses = []string{"127.0.0.1"} }, "False AddressUnavailable", []string{"192.0.2.5", shared},
		},
		"another IP version": {
			func(r *rig) { r.doc.Cluster.Masters[1].Addresses = []string{"fd00::5"} },
			func(r *rig) { r.doc.Cluster.Masters[1].Addresses = []string{"127.0.0.1"} }, "False AddressUnavailable", []string{"same IP version"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sharing(first(t))
			c.breaks(r)
			r.expect(healthy, c.want, c.words...)
			if got := verbs(r.runs()); strings.Contains(got, "init") || r.holds(shared) {
				t.Errorf("kubeadm ran as %q, the addresses are %v", got, r.m.Kernel.Addresses)
			}
			c.mends(r)
			r.settle()
			r.takesPart(true)
			r.expect(member, "True Joined")
		})
	}
}

func TestADryRunTouchesNoKeepalived(t *testing.T) {
	r := sharing(first(t))
	before := r.m.Changes()
	report := r.engine.Converge(t.Context(), r.doc, converge.Options{DryRun: true, Confirmed: true})
	if since := r.m.Changes().Since(before); !since.None() {
		t.Errorf("a dry run changed %s", since)
	}
	if text := fmt.Sprintf("%+v", report.Results); !strings.Contains(text, "write "+host.KeepalivedConfig) {
		t.Errorf("it does not say what it would do: %s", text)
	}
}

// TestACrashAroundTheAddress ends the agent, or the machine, before each change, and wants the
// same end.
func TestACrashAroundTheAddress(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(*testing.T) *rig
		takes bool
		least int
	}{
		"take": {func(t *testing.T) *rig { return sharing(first(t)) }, true, 8},
		"leave": {func(t *testing.T) *rig {
			r := sharing(first(t))
			r.settle()
			r.doc.ControlPlane.SharedAddress = ""
			return r
		}, false, 5},
	} {
		for _, reboot := range []bool{false, true} {
			for n := 1; ; n++ {
				r := c.begin(t)
				if !r.crashing(n) {
					if n <= c.least {
						t.Errorf("%s: there are only %d changes", name, n-1)
					}
					break
				}
				if reboot {
					r.m.Reboot()
					r.m.Units["containerd.service"].Active = true
				}
				r.restart()
				r.settle()
				r.expect(member, "True Joined")
				r.expect(healthy, "True Healthy")
				r.takesPart(c.takes)
				r.idle()
				if t.Failed() {
					t.Fatalf("%s, reboot %v, before change %d", name, reboot, n)
				}
			}
		}
	}
}
