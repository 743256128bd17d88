package nfsclient_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/nfsclient"
	"github.com/nodehitch/nodehitch/shared/api"
)

// client is the document of a worker whose cluster has a storage server.
func client() *api.NodeConfig {
	return &api.NodeConfig{
		APIVersion: api.NodeConfigV1, Generation: 1, Role: api.RoleWorker, NFSClient: &api.NFSClientSection{},
		Proxy: &api.ProxySection{HTTP: "http://user1:password1@host1:port1"},
	}
}

func pass(t *testing.T, m *hosttest.Machine, doc *api.NodeConfig, o converge.Options) converge.Report {
	t.Helper()
	return converge.New(nfsclient.New(m.Host())).Converge(t.Context(), doc, o)
}

// said is the condition as "status reason: message", "" if there is none.
func said(r converge.Report) string {
	c := r.Condition(api.ConditionNFSClientInstalled)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestTheClientIsInstalledOnce(t *testing.T) {
	m := hosttest.New()
	if got := said(pass(t, m, client(), converge.Options{})); got != "True Installed: NFS client is installed" {
		t.Errorf("the condition is %q", got)
	}
	if want := []string{"install [NFS client]"}; !slices.Equal(m.Trace, want) {
		t.Errorf("did %q, want %q", m.Trace, want)
	}
	if m.Proxy.HTTP != "http://user1:password1@host1:port1" {
		t.Errorf("the package manager's proxy is %+v", m.Proxy)
	}
	before := m.Changes()
	report := pass(t, m, client(), converge.Options{})
	if !m.Changes().Since(before).None() || !report.Converged() {
		t.Errorf("a second pass changed %s, the condition is %q", m.Changes().Since(before), said(report))
	}
}

func TestADryRunOnlySaysWhatItWouldInstall(t *testing.T) {
	m := hosttest.New()
	report := pass(t, m, client(), converge.Options{DryRun: true})
	if !m.Changes().None() || said(report) != "False Converging: left to do: install NFS client" {
		t.Errorf("changed %s, the condition is %q", m.Changes(), said(report))
	}
}

// The cluster has no storage server, or no longer: what is there stays.
func TestWithoutASectionNothingIsTouched(t *testing.T) {
	doc := client()
	doc.NFSClient = nil
	for _, there := range []bool{true, false} {
		m := hosttest.New()
		m.Installed[host.NFSClient] = there
		report := pass(t, m, doc, converge.Options{})
		if !m.Changes().None() || said(report) != "" || m.Installed[host.NFSClient] != there {
			t.Errorf("installed before: %v: changed %s, the condition is %q", there, m.Changes(), said(report))
		}
	}
}

func TestItGoesOnWhenThePackageCanBeHad(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"another is installing": {&host.BusyError{Detail: "process 12 (unattended-upgr)"}, "False PackageManagerBusy: "},
		"no source has it":      {&host.UnavailableError{Package: "nfs-common", Detail: "Unable to locate package"}, "False PackageUnavailable: "},
		"something unexpected":  {errors.New("out of memory"), "Unknown InternalError: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := hosttest.New(hosttest.Missing(c.err))
			report := pass(t, m, client(), converge.Options{})
			if got := said(report); !strings.HasPrefix(got, c.want) || !strings.Contains(got, c.err.Error()) {
				t.Errorf("the condition is %q, want %q with %q", got, c.want, c.err)
			}
			if report.FailedCondition != "" {
				t.Error("a retry mends it, so it is no terminal failure")
			}
			m.Unavailable = nil
			if got := said(pass(t, m, client(), converge.Options{})); !strings.HasPrefix(got, "True Installed") {
				t.Errorf("then the condition is %q", got)
			}
		})
	}
}
