package registries

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

func (c *cluster) wrongCA(*results.Case) {
	c.serve("443", password, time.Now().Add(time.Hour))
	c.upload(caPath, registry.NewAuthority(c.T, "another authority", time.Now().Add(time.Hour)).PEM)
	message := c.refused(api.ReasonCertificateRejected, secure(secureServer, password))
	if !strings.Contains(message, secureServer) {
		c.T.Errorf("the message does not name the registry: %s", message)
	}
	c.upload(caPath, c.ca.PEM)
	c.connected(secure(secureServer, password))
	c.crossed(secureServer)
}

func (c *cluster) wrongPassword(*results.Case) {
	c.serve("443", password, time.Now().Add(time.Hour))
	message := c.refused(api.ReasonUnauthorized, secure(secureServer, "not-the-password"))
	if !strings.Contains(message, "authentication required") {
		c.T.Errorf("the registry's own answer is not in the message: %s", message)
	}
	for _, path := range []string{dockerLogins, kubeletLogins} {
		if _, written := c.workers[0].login(path, secureServer+"/"); written == "not-the-password" {
			c.T.Errorf("%s holds the wrong password", path)
		}
	}
	c.connected(secure(secureServer, password))
	c.crossed(secureServer)
}

func (c *cluster) expiredCA(*results.Case) {
	old := registry.NewAuthority(c.T, "an authority of yesterday", time.Now().Add(-time.Minute))
	pair := old.Issue(c.T, time.Now().Add(-time.Minute), secureServer)
	r := registry.Open(c.T, c.Lab, registry.Options{
		Address: secureAddress.Addr().String() + ":443", TLS: &pair, Users: map[string]string{"user01": password},
	})
	c.upload(caPath, old.PEM)
	message := c.refused(api.ReasonCertificateRejected, secure(secureServer, password))
	if !strings.Contains(message, "expired") {
		c.T.Errorf("the message does not say that it is expired: %s", message)
	}
	fresh := c.ca.Issue(c.T, time.Now().Add(time.Hour), secureServer)
	r.Change(func(o *registry.Options) { o.TLS = &fresh })
	c.upload(caPath, c.ca.PEM)
	c.connected(secure(secureServer, password))
	c.crossed(secureServer)
}

func (c *cluster) down(r *results.Case) {
	address := secureAddress.Addr().String() + ":5000"
	registryDown := registry.New(c.T, c.Lab, registry.Options{Address: address})
	message := c.refused(api.ReasonUnreachable, plain(address))
	if !strings.Contains(message, address) {
		c.T.Errorf("the message does not name the registry: %s", message)
	}
	registryDown.Start()
	began := time.Now()
	for _, m := range c.workers {
		m.Says(api.ConditionRegistriesConnected, api.ReasonConnected)
	}
	r.Figure("registry up to connected", "%.1f s", time.Since(began).Seconds())
	c.crossed(address)
	for _, m := range c.workers {
		m.stays()
	}
}

func (c *cluster) twenty(r *results.Case) {
	var servers []string
	var connections []map[string]any
	for i := range 20 {
		server := fmt.Sprintf("%s:%d", secureAddress.Addr(), 5001+i)
		registry.Open(c.T, c.Lab, registry.Options{Address: server})
		servers, connections = append(servers, server), append(connections, plain(server))
	}
	began := time.Now()
	c.connected(connections...)
	r.Figure("20 registries on 2 workers", "%.1f s", time.Since(began).Seconds())
	c.crossed(servers[0])
	c.crossed(servers[19])
	for _, m := range c.workers {
		m.stays()
	}
	c.connected()
	for _, server := range servers {
		c.gone(server)
	}
}

// gone asserts that no file on the workers names the server.
func (c *cluster) gone(server string) {
	c.T.Helper()
	for _, m := range c.workers {
		found, _ := m.Try("sh", "-c", `grep -rlF -- "$1" /etc /root/.docker /var/lib/kubelet; find /etc/docker /etc/containerd -name "*$1*"`, "sh", server)
		if found != "" {
			c.T.Errorf("%s: %s is left in:\n%s", m.Name(), server, found)
		}
	}
}

func (c *cluster) port(*results.Case) {
	c.serve("8443", password, time.Now().Add(time.Hour))
	c.connected(secure(secureServer+":8443", password))
	c.crossed(secureServer + ":8443")
}

// Docker 20.10 accepts no image names with an IPv6 literal, so only containerd pulls.
func (c *cluster) ipv6(*results.Case) {
	server := net.JoinHostPort(sixLab.Addr().String(), "5000")
	registry.Open(c.T, c.Lab, registry.Options{Address: server})
	c.connected(plain(server))
	name := server + "/from/ipv6:1"
	m := c.workers[0]
	m.load(registry.Small("ipv6:1", 4096, 6))
	m.Run("sh", "-c", "docker save ipv6:1 >/var/tmp/ipv6.tar && ctr images import --base-name x /var/tmp/ipv6.tar && ctr images tag docker.io/library/ipv6:1 "+name)
	m.Run("ctr", "images", "push", "--hosts-dir", hostsDir, name)
	c.workers[1].Run("ctr", "images", "pull", "--hosts-dir", hostsDir, name)
	for _, m := range c.workers {
		m.stays()
	}
}

func (c *cluster) unicode(*results.Case) {
	const password = "pä55: \"wörd\" ☃ $(x)"
	c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(secure(secureServer, password))
	c.crossed(secureServer)
}

func (c *cluster) rotated(*results.Case) {
	r := c.serve("443", password, time.Now().Add(time.Hour))
	c.connected(secure(secureServer, password))
	c.crossed(secureServer)

	successor := registry.NewAuthority(c.T, "the next authority", time.Now().Add(time.Hour))
	pair := successor.Issue(c.T, time.Now().Add(time.Hour), secureServer)
	r.Change(func(o *registry.Options) { o.TLS, o.Users["user01"] = &pair, "the next password" })
	c.upload(caPath, successor.PEM)
	c.connected(secure(secureServer, "the next password"))
	c.crossed(secureServer)
	for _, m := range c.workers {
		if _, kept := m.login(kubeletLogins, secureServer+"/"); kept != "the next password" {
			c.T.Errorf("%s: the kubelet's login is %q", m.Name(), kept)
		}
	}
	c.upload(caPath, c.ca.PEM)
}
