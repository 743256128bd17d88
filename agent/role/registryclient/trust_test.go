package registryclient_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/agent/role/registryclient/registrytest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestOwnersTrust: what the engines trust by files that the owner has put there is trusted
// without a CA in the request, and our hosts.toml does not hide it.
func TestOwnersTrust(t *testing.T) {
	ca := registrytest.CA(t, "the owner's", registrytest.Now())
	for name, c := range map[string]struct {
		engines   []hosttest.Part
		files     []string // of the CA, below the server's directory
		condition string
		words     []string
	}{
		"Docker":                     {[]hosttest.Part{docker}, []string{dockerD + "SERVER/company.crt"}, connected, nil},
		"containerd":                 {[]hosttest.Part{containerd(t, "")}, []string{certsD + "SERVER/ca.crt"}, connected, nil},
		"containerd for any":         {[]hosttest.Part{containerd(t, "")}, []string{certsD + "_default/ca.crt"}, connected, nil},
		"both by that of Docker":     {[]hosttest.Part{docker, containerd(t, "")}, []string{dockerD + "SERVER/ca.crt"}, connected, nil},
		"both by that of containerd": {[]hosttest.Part{docker, containerd(t, "")}, []string{certsD + "SERVER/ca.crt"}, "False CertificateRejected", []string{"Docker on this machine does not", certsD}},
		"both by one of each":        {[]hosttest.Part{docker, containerd(t, "")}, []string{dockerD + "SERVER/ca.crt", certsD + "SERVER/ca.crt"}, connected, nil},
		"none and nobody trusts it":  {[]hosttest.Part{docker, containerd(t, "")}, nil, "False CertificateRejected", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, c.engines...)
			s := r.secure(ca, "registry.example.com")
			s.CACertificate = nil
			for _, path := range c.files {
				file(strings.ReplaceAll(path, "SERVER", s.Server), string(ca.PEM))(r.m)
			}
			r.connect(s).expect(c.condition, c.words...)
			for _, path := range c.files {
				path = strings.ReplaceAll(path, "SERVER", s.Server)
				if toml := r.file(certsD + s.Server + "/hosts.toml"); r.m.Containerd != "" && !strings.Contains(toml, path) {
					t.Errorf("hosts.toml hides %s: %s", path, toml)
				}
				if r.file(path) != string(ca.PEM) {
					t.Errorf("%s is gone", path)
				}
			}
			if c.condition == connected {
				r.idle()
			}
		})
	}
}

const dockerD = "/etc/docker/certs.d/"

// With containerd's image store Docker trusted only the system's CAs at a token service, until
// 29.5.2. containerd trusts the registry's there, and gets the login.
func TestTokenServiceThatDockerDoesNotTrust(t *testing.T) {
	ca := registrytest.CA(t, "CA", registrytest.Now())
	certificate := ca.Issue(t, registrytest.Now(), "127.0.0.1")
	tokens := registrytest.Tokens(t, "user01", "geheim", certificate)
	server := registrytest.Start(t, registrytest.Options{Certificate: certificate, Tokens: tokens})
	for version, condition := range map[string]string{
		"": connected, "26.1.5+dfsg1": "False CertificateRejected", "29.5.1": "False CertificateRejected", "29.5.2": connected, "30.0.0": connected,
	} {
		t.Run(version, func(t *testing.T) {
			r := machine(t, docker, containerd(t, ""))
			r.m.Containers.ContainerdStore = version
			r.connect(api.RegistryConnection{
				Server: server, Scheme: api.RegistryHTTPS, Username: "user01", Password: "geheim", CACertificate: r.give(ca.PEM),
			})
			words := []string{tokens.URL, "Docker " + version, "update-ca-certificates"}
			if condition == connected {
				words = nil
			}
			r.expect(condition, words...)
			if !strings.Contains(r.file(kubelet), server) {
				t.Error("containerd lacks the login")
			}
			r.idle()
		})
	}
}

func TestOwnersClientCertificate(t *testing.T) {
	ca := registrytest.CA(t, "CA", registrytest.Now())
	client := ca.Issue(t, registrytest.Now(), "node")
	server := registrytest.Start(t, registrytest.Options{Certificate: ca.Issue(t, registrytest.Now(), "127.0.0.1"), ClientCA: ca})
	for name, c := range map[string]struct {
		engine hosttest.Part
		dir    string
	}{"Docker": {docker, dockerD}, "containerd": {containerd(t, ""), certsD}} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, c.engine)
			dir := c.dir + server + "/"
			connection := api.RegistryConnection{Server: server, Scheme: api.RegistryHTTPS, CACertificate: r.give(ca.PEM)}
			r.connect(connection).expect("False Unreachable", "certificate")
			file(dir+"client.cert", string(client.PEM))(r.m)
			file(dir+"client.key", string(client.Key))(r.m)
			r.expect(connected)
			toml := r.file(certsD + server + "/hosts.toml")
			if wanted := `client = [["` + dir + `client.cert", "` + dir + `client.key"]]`; r.m.Containerd != "" && !strings.Contains(toml, wanted) {
				t.Errorf("hosts.toml: %s", toml)
			}
			r.idle()
		})
	}
}

// TestADirectoryThatDockerRefuses: with a file that has no partner every pull fails.
func TestADirectoryThatDockerRefuses(t *testing.T) {
	ca := registrytest.CA(t, "CA", registrytest.Now())
	for name, content := range map[string]string{"ca.cert": string(ca.PEM), "client.key": string(ca.Key)} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, docker)
			s := r.secure(ca, "registry.example.com")
			path := dockerD + s.Server + "/" + name
			file(path, content)(r.m)
			r.connect(s).expect("False EngineConfigInvalid", path, "Docker refuses the directory")
			delete(r.m.Files, path)
			r.expect(connected)
		})
	}
}

// TestAMirrorForAll stays the way to a registry that the agent cannot reach.
func TestAMirrorForAll(t *testing.T) {
	r := machine(t, containerd(t, ""), file(certsD+"_default/hosts.toml", "server = \"http://mirror:5000\"\n"))
	r.world.remove(plain)
	r.connect(open(plain)).expect("False Unreachable")
	if r.file(certsD+plain+"/hosts.toml") != "" {
		t.Error("hosts.toml hides the only way")
	}
	r.world.set(plain, "")
	r.expect(connected)
	if r.file(certsD+plain+"/hosts.toml") == "" {
		t.Error("no hosts.toml")
	}
	r.idle()
}

// TestDockerHub: docker.io serves no images itself.
func TestDockerHub(t *testing.T) {
	r := machine(t, containerd(t, ""))
	hub := api.RegistryConnection{Server: "docker.io", Scheme: api.RegistryHTTPS}
	r.connect(hub).expect("False Unreachable")
	if toml := r.file(certsD + "docker.io/hosts.toml"); !strings.Contains(toml, `server = "https://registry-1.docker.io"`) {
		t.Errorf("hosts.toml: %s", toml)
	}
	if got := r.world.connects(); len(got) == 0 || got[0] != "registry-1.docker.io:443" {
		t.Errorf("asked %q", got)
	}
}
