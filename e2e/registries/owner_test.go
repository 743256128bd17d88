package registries

import (
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// owned is what the owner of a node may have in the files that a connection touches,
// in the owner's own way of writing.
var owned = map[string]string{
	"/etc/docker/daemon.json": "{\n    \"log-opts\": {\"max-size\": \"10m\"},\n\t\"insecure-registries\": [\"10.9.9.9:5000\"],\n  \"debug\": false\n}\n",
	dockerLogins:              "{\n\t\"auths\": {\n\t\t\"quay.example.org\": {\"auth\": \"b3duZXI6c2VjcmV0\"}\n\t},\n\t\"detachKeys\": \"ctrl-e,e\"\n}\n",
	kubeletLogins:             "{\"auths\":{\"quay.example.org\":{\"auth\":\"b3duZXI6c2VjcmV0\"}}}",
	hostsDir + "/quay.example.org/hosts.toml":     "server = \"https://quay.example.org\"\n",
	"/etc/docker/certs.d/quay.example.org/ca.crt": "-----BEGIN CERTIFICATE-----\n",
}

const ownersHost = "10.9.9.9 quay.example.org # mine"

func (c *cluster) owner(r *results.Case) {
	c.connected()
	m := c.workers[0]
	for path, content := range owned {
		m.write(path, content)
	}
	m.Run("sh", "-c", `printf '%s\n' "$1" >>/etc/hosts`, "sh", ownersHost)
	// As an owner of Docker's insecure-registries would.
	m.Run("systemctl", "reload", "docker")
	hosts, containerd := m.read("/etc/hosts"), m.read("/etc/containerd/config.toml")

	address := secureAddress.Addr().String() + ":5000"
	registry.Open(c.T, c.Lab, registry.Options{Address: address})
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(plain(address), secure(secureServer, password))
	c.crossed(address)
	c.crossed(secureServer)
	if info := m.Run("docker", "info", "--format", "{{json .RegistryConfig.IndexConfigs}}"); !strings.Contains(info, "10.9.9.9:5000") || !strings.Contains(info, address) {
		c.T.Errorf("Docker's insecure registries are %s", info)
	}
	for path, content := range owned {
		r.Lost(missing(content, m.read(path)))
	}
	r.Lost(missing(hosts, m.read("/etc/hosts")) + missing(containerd, m.read("/etc/containerd/config.toml")))
	m.stays()

	c.connected()
	c.gone(address)
	c.gone(secureServer)
	for path, content := range owned {
		if got := m.read(path); got != content {
			c.T.Errorf("%s is\n%s\nwas\n%s", path, got, content)
		}
	}
	if got := m.read("/etc/hosts"); got != hosts {
		c.T.Errorf("/etc/hosts is\n%s\nwas\n%s", got, hosts)
	}
	r.Lost(missing(containerd, m.read("/etc/containerd/config.toml")))
	for path := range owned {
		m.Run("rm", path)
	}
}

// missing is how many bytes are in lines of before that are not in after, in which
// entries may have been added to a list and commas to lines.
func missing(before, after string) (bytes int64) {
	after = strings.Join(strings.Fields(after), "")
	for line := range strings.Lines(before) {
		line = strings.Join(strings.Fields(line), "")
		if !strings.Contains(after, strings.TrimRight(line, ",]}")) {
			bytes += int64(len(line))
		}
	}
	return bytes
}
