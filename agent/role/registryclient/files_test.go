package registryclient_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/registrytest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const hosts = "/etc/hosts"

// secure is a real registry with TLS and a login, by a name that only /etc/hosts has.
func (r *rig) secure(ca *registrytest.Certificate, name string) api.RegistryConnection {
	r.t.Helper()
	server := registrytest.Start(r.t, registrytest.Options{
		Certificate: ca.Issue(r.t, registrytest.Now(), name), Username: "user01", Password: "geheim",
	})
	return api.RegistryConnection{
		Server: name + server[strings.LastIndex(server, ":"):], Scheme: api.RegistryHTTPS, Username: "user01", Password: "geheim",
		CACertificate: r.give(ca.PEM), HostsEntry: &api.HostsEntry{Address: "127.0.0.1", Names: []string{name}},
	}
}

func TestHTTPSWithItsOwnCAInOnePass(t *testing.T) {
	r := machine(t, docker, containerd(t, ""), file(hosts, "127.0.0.1 localhost\n"))
	ca := registrytest.CA(t, "CA", registrytest.Now())
	c := r.secure(ca, "registry.example.com")
	r.connect(c).expect(connected)
	path := "/etc/docker/certs.d/" + c.Server + "/ca.crt"
	if r.file(path) != string(ca.PEM) || !strings.Contains(r.file(certsD+c.Server+"/hosts.toml"), path) {
		t.Errorf("%+v", r.snapshot())
	}
	if !strings.HasPrefix(r.file(hosts), "127.0.0.1 localhost\n") || !strings.Contains(r.file(hosts), "127.0.0.1\tregistry.example.com\n") {
		t.Errorf("hosts: %s", r.file(hosts))
	}
	if r.file(daemonJSON) != "" || !strings.Contains(r.file(kubelet), c.Server) {
		t.Errorf("%+v", r.snapshot())
	}
	r.idle()
	// The store's copy is not needed any more, also by a new process.
	if err := os.RemoveAll(r.store.Directory); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.idle()
	r.connect().expect("True Removed")
	if r.file(hosts) != "127.0.0.1 localhost\n" || r.file(path) != "" || r.file(kubelet) != "" {
		t.Errorf("left: %+v", r.snapshot())
	}
	r.idle()
}

func TestChangedCA(t *testing.T) {
	r := machine(t, docker)
	old, fresh := registrytest.CA(t, "old", registrytest.Now()), registrytest.CA(t, "new", registrytest.Now())
	c := r.secure(fresh, "registry.example.com")
	right := c.CACertificate
	c.CACertificate = r.give(old.PEM)
	report := r.connect(c).expect("False CertificateRejected", "issued by CN=new", "the given CN=old")
	if report.FailedCondition == "" || r.file(kubelet) != "" {
		t.Error("it is not terminal, or the login was written")
	}
	r.idle()
	c.CACertificate = right
	r.connect(c).expect(connected)
	if r.file("/etc/docker/certs.d/"+c.Server+"/ca.crt") != string(fresh.PEM) {
		t.Error("the old CA is still there")
	}
	r.idle()
	c.CACertificate = nil
	r.connect(c).expect("False CertificateRejected", "none is given")
	if r.file("/etc/docker/certs.d/"+c.Server+"/ca.crt") != "" {
		t.Error("a CA that is no longer given is still trusted")
	}
}

// Its CA is not on the machine when the agent plans, so that the registry is asked about
// the login only while the agent acts.
func TestALoginThatIsRefusedOnceItsCAIsThere(t *testing.T) {
	r := machine(t, docker)
	c := r.secure(registrytest.CA(t, "CA", registrytest.Now()), "registry.example.com")
	right := c.Password
	c.Password = "falsch"
	r.onlyAtTheController(c.CACertificate)
	r.connect(c).expect("False Unauthorized", c.Server, "user01")
	if r.file(dockerJSON)+r.file(kubelet) != "" {
		t.Errorf("a login that no registry accepted is written: %+v", r.snapshot())
	}
	if r.file("/etc/docker/certs.d/"+c.Server+"/ca.crt") == "" {
		t.Error("its CA is missing, so that this test means nothing")
	}
	c.Password = right
	r.connect(c).expect(connected)
}

func TestOwnersCAStays(t *testing.T) {
	ca, other := registrytest.CA(t, "CA", registrytest.Now()), registrytest.CA(t, "other", registrytest.Now())
	for name, own := range map[string][]byte{"the same": ca.PEM, "another": other.PEM} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, docker)
			c := r.secure(ca, "registry.example.com")
			dir := "/etc/docker/certs.d/" + c.Server + "/"
			file(dir+"ca.crt", string(own))(r.m)
			r.connect(c).expect(connected)
			r.idle()
			if got, same := r.file(dir+"nodehitch.crt"), string(own) == string(ca.PEM); (got == "") != same {
				t.Errorf("beside it: %q", got)
			}
			r.connect().expect("True Removed")
			if r.file(dir+"ca.crt") != string(own) || r.file(dir+"nodehitch.crt") != "" {
				t.Errorf("left: %+v", r.snapshot())
			}
		})
	}
}

func TestCAThatCannotBeFetched(t *testing.T) {
	r := machine(t, docker)
	c := r.secure(registrytest.CA(t, "CA", registrytest.Now()), "registry.example.com")
	if err := os.Remove(filepath.Join(r.store.Directory, c.CACertificate.Sha256)); err != nil {
		t.Fatal(err)
	}
	r.connect(c, open(plain)).expect("False FileUnavailable", c.CACertificate.Sha256)
	if len(r.m.Containers.Insecure) != 1 {
		t.Error("the other registry waits for this one's CA")
	}
	damaged := registrytest.CA(t, "another CA", registrytest.Now()).PEM
	c.CACertificate.SizeBytes = int64(len(damaged))
	if err := os.WriteFile(filepath.Join(r.store.Directory, c.CACertificate.Sha256), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	r.expect("False FileUnavailable", c.CACertificate.Sha256)
}

func TestCAThatIsNone(t *testing.T) {
	r := machine(t, docker)
	c := r.secure(registrytest.CA(t, "CA", registrytest.Now()), "registry.example.com")
	c.CACertificate = r.give([]byte("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"))
	r.connect(c).expect("False CertificateRejected", "private key")
	if strings.Contains(fmt.Sprint(r.snapshot()), "PRIVATE KEY") {
		t.Errorf("written: %+v", r.snapshot())
	}
}

func TestOwnersLineForTheSameName(t *testing.T) {
	r := machine(t, docker, file(hosts, "127.0.0.1 localhost\n10.9.9.9 registry.example.com\n"))
	c := r.secure(registrytest.CA(t, "CA", registrytest.Now()), "registry.example.com")
	r.connect(c).expect("False EngineConfigInvalid", "line 2", "10.9.9.9")
}

func TestDryRunAsksNoRegistryWithoutItsCAAndWritesNothing(t *testing.T) {
	r := machine(t, docker, containerd(t, ""))
	c := r.secure(registrytest.CA(t, "CA", registrytest.Now()), "registry.example.com")
	if err := os.RemoveAll(r.store.Directory); err != nil {
		t.Fatal(err)
	}
	r.connect(c, login(locked, "user02", "right"))
	report := r.engine.Converge(t.Context(), r.doc, converge.Options{DryRun: true})
	r.noPassword(report)
	var planned []string
	for _, a := range report.Results[0].Planned {
		planned = append(planned, a.Summary)
	}
	want := []string{
		"write 1 line for registries in /etc/hosts",
		"write the CA of " + c.Server + " to /etc/docker/certs.d/" + c.Server + "/ca.crt",
		"write insecure-registries of /etc/docker/daemon.json, with " + locked,
		"reload docker.service",
		"set config_path in /etc/containerd/config.toml to /etc/containerd/certs.d",
		"restart containerd.service",
		"write /etc/containerd/certs.d/" + c.Server + "/hosts.toml",
		"write /etc/containerd/certs.d/" + locked + "/hosts.toml",
		"write the login for " + c.Server + " to /root/.docker/config.json",
		"write the login for " + locked + " to /root/.docker/config.json",
		"write the login for " + c.Server + " to /var/lib/kubelet/config.json",
		"write the login for " + locked + " to /var/lib/kubelet/config.json",
	}
	if !slices.Equal(planned, want) {
		t.Errorf("planned:\n%s", strings.Join(planned, "\n"))
	}
	if len(r.m.Files) != 0 {
		t.Errorf("written: %+v", r.m.Files)
	}
}

func TestNoSectionIsHandsOff(t *testing.T) {
	r := machine(t, docker).connect(open(plain))
	r.expect(connected)
	before := r.snapshot()
	r.doc.Registries = nil
	if report := r.converge(); len(report.Results) != 1 || !report.Results[0].HandsOff || fmt.Sprint(before) != fmt.Sprint(r.snapshot()) {
		t.Errorf("%+v", report)
	}
}

func TestInventoryThatTheAgentHasNotWritten(t *testing.T) {
	for _, content := range []string{
		`{"registries": {"files": [{"path": "/etc/passwd", "server": "a:1"}]}}`,
		`{"registries": {"files": [{"path": "/etc/x/../ca.crt", "server": "a:1"}]}}`,
		`{"registries": {"logins": [{"path": "/etc/passwd", "server": "a:1"}]}}`,
		`{"registries": {"insecure": ["a b"]}}`,
		`{"registries": 7}`, `{`,
	} {
		r := machine(t, docker, file(inventory, content), file("/etc/passwd", "root")).connect()
		r.expect("Unknown StateDamaged", inventory)
		if r.file("/etc/passwd") != "root" || r.file(inventory) != content {
			t.Errorf("changed under %s", content)
		}
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
	step := r.step() // the engine would take the panic for an error
	for range 2 {
		plan, err := step.Plan(r.t.Context(), r.doc)
		if err != nil {
			r.t.Fatalf("planning: %v", err)
		}
		for _, a := range plan.Actions {
			if err := a.Do(r.t.Context()); err != nil {
				r.t.Fatalf("%s: %v", a.Summary, err)
			}
		}
	}
	return false
}

// TestKilledAtAnyChange kills the agent before each of its changes, while registries
// come, change and go.
func TestKilledAtAnyChange(t *testing.T) {
	t.Parallel()
	ca := registrytest.CA(t, "CA", registrytest.Now())
	prepared := func(t *testing.T) *rig {
		return machine(t, docker, containerd(t, ""), file(hosts, "127.0.0.1 localhost\n"),
			file(daemonJSON, "{\"log-level\": \"warn\"}\n"), file(kubelet, `{"auths": {"mine:1": {"auth": "bWU6bWU="}}}`))
	}
	type section func(r *rig, secure api.RegistryConnection)
	for name, c := range map[string]struct {
		first, then section
		end         string
	}{
		"coming": {nil, func(r *rig, s api.RegistryConnection) { r.connect(open(plain), login(locked, "a", "right"), s) }, connected},
		"changing": {func(r *rig, s api.RegistryConnection) { r.connect(open(plain), s) },
			func(r *rig, s api.RegistryConnection) { r.connect(open(plain2), login(locked, "a", "right")) }, connected},
		"going": {func(r *rig, s api.RegistryConnection) { r.connect(open(plain), login(locked, "a", "right"), s) },
			func(r *rig, _ api.RegistryConnection) { r.connect() }, "True Removed"},
	} {
		t.Run(name, func(t *testing.T) {
			whole := prepared(t)
			s := whole.secure(ca, "registry.example.com")
			for _, section := range []section{c.first, c.then} {
				if section != nil {
					section(whole, s)
					whole.converge()
				}
			}
			for n := 1; ; n++ {
				r := prepared(t)
				r.give(ca.PEM)
				if c.first != nil {
					c.first(r, s)
					r.expect(connected)
				}
				c.then(r, s)
				if !r.crashing(n) {
					if n < 8 {
						t.Errorf("only %d changes", n-1)
					}
					return
				}
				r.restart()
				r.expect(c.end)
				r.idle()
				if got, want := fmt.Sprint(r.snapshot()), fmt.Sprint(whole.snapshot()); got != want {
					t.Fatalf("killed before change %d (%q):\n%s\nwant\n%s", n, r.m.Trace, got, want)
				}
				if got := r.m.Containers.Insecure; fmt.Sprint(got) != fmt.Sprint(whole.m.Containers.Insecure) {
					t.Fatalf("killed before change %d: the engine has %q", n, got)
				}
			}
		})
	}
}
