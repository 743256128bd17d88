package containerdconf_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
)

const kept = "# Kept by nodehitch-agent: what is changed here is put back.\n"
const noMirrors = "\n[host] # no mirrors; containerd 1.x needs the table\n"

func TestHostsFile(t *testing.T) {
	for name, c := range map[string]struct {
		host   containerdconf.Host
		wanted string
	}{
		"HTTP":                    {containerdconf.Host{Server: "10.10.0.2:5000"}, "server = \"http://10.10.0.2:5000\"\n"},
		"HTTP has no CA":          {containerdconf.Host{Server: "reg", CAFiles: []string{"/ca.crt"}}, "server = \"http://reg\"\n"},
		"HTTPS, the system's CAs": {containerdconf.Host{Server: "reg:5000", HTTPS: true}, "server = \"https://reg:5000\"\n"},
		"HTTPS, a private CA, IPv6": {
			containerdconf.Host{Server: "[fd00::1]:5000", HTTPS: true, CAFiles: []string{"/etc/containerd/certs.d/[fd00::1]:5000/ca.crt"}},
			"server = \"https://[fd00::1]:5000\"\nca = [\"/etc/containerd/certs.d/[fd00::1]:5000/ca.crt\"]\n",
		},
		"a path with quotes": {containerdconf.Host{Server: "reg", HTTPS: true, CAFiles: []string{"/\"\\\n"}}, "server = \"https://reg\"\nca = [\"/\\\"\\\\\\u000A\"]\n"},
		"two CAs and client certificates": {
			containerdconf.Host{Server: "reg", HTTPS: true, CAFiles: []string{"/a.crt", "/b.crt"}, Client: []containerdconf.Pair{{Certificate: "/c.cert", Key: "/c.key"}, {Certificate: "/d.cert"}}},
			"server = \"https://reg\"\nca = [\"/a.crt\", \"/b.crt\"]\nclient = [[\"/c.cert\", \"/c.key\"], [\"/d.cert\", \"/d.cert\"]]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := containerdconf.HostsFile(c.host)
			if diff := cmp.Diff(kept+c.wanted+noMirrors, string(got)); diff != "" {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
			var decoded struct{ CA []string }
			if err := toml.Unmarshal(got, &decoded); err != nil || c.host.HTTPS && !slices.Equal(decoded.CA, c.host.CAFiles) {
				t.Errorf("%+v, %v", decoded, err)
			}
		})
	}
}

func TestDirectoryNames(t *testing.T) {
	for server, before := range map[string][]string{
		"reg.example":      nil,
		"reg.example:5000": {"reg.example_5000_"},
		"10.10.0.2:5000":   {"10.10.0.2_5000_"},
		"[fd00::1]:5000":   {"[fd00::1]_5000_"},
		"[fd00::1]":        {"[fd00:_1]_"}, // sic
	} {
		if diff := cmp.Diff(before, containerdconf.DirectoryNamesBefore(server)); diff != "" {
			t.Errorf("%s (-wanted +got):\n%s", server, diff)
		}
		if got := containerdconf.DirectoryName(server); got != server {
			t.Errorf("%s: %s", server, got)
		}
	}
}
