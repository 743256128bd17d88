package grammar_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// table is a grammar with texts that it takes, as they are or as it makes them,
// and texts that it refuses, with a word of the reason.
type table struct {
	parse  func(string) (string, error)
	takes  map[string]string
	refuse map[string]string
}

// same is a table entry for texts that are taken as they are.
func same(texts ...string) map[string]string {
	m := make(map[string]string)
	for _, s := range texts {
		m[s] = s
	}
	return m
}

var tables = map[string]table{
	"AbsolutePath": {
		parse: grammar.AbsolutePath,
		takes: same("/volume", "/volume/nfs/pv1", "/a.b_c-d+e@f~g", "/...", "/etc", "/"+strings.Repeat("a", 255)),
		refuse: map[string]string{
			"": "empty", "/": "root directory", "volume": "absolute", "./volume": "absolute", "~/volume": "absolute",
			"/volume/": "empty part", "//volume": "empty part", "/a//b": "empty part", "/a/../b": `".."`, "/..": `".."`, "/a/./b": `"."`,
			"/a b": "white space", "/a\nb": "white space", "/a\u00a0b": "white space", "/a\x00b": "control", "/a\x7fb": "control", "/a\u202eb": "invisible",
			"/a\xffb": "UTF-8", "/a,b": "','", "/a%b": "'%'", "/a(b)": "'('", "/a\"b": `'"'`, "/a\\040b": `'\\'`, "/a$b": "'$'", "/a#b": "'#'", "/a:b": "':'", "/ä": "'ä'",
			"/" + strings.Repeat("a", 256): "255", strings.Repeat("/a", 513): "1026 bytes",
		},
	},
	"MountPath": {
		parse: grammar.MountPath,
		takes: same("/volume", "/srv", "/srv/nfs", "/mnt", "/mnt/a", "/home/data", "/var/nfs", "/var/lib/nfsdata", "/opt/data", "/media/disk", "/data/etc", "/etcetera", "/usr2", "/home/ubuntu/ssh", "/var/lib/sudoers"),
		refuse: map[string]string{
			"": "empty", "/": "root directory", "/etc": "directory of the system", "/etc/a": "lies in /etc", "/usr": "system", "/usr/local/nfs": "lies in /usr",
			"/var": "hidden", "/var/lib": "hidden", "/home": "hidden", "/opt": "hidden", "/media": "hidden", "/proc": "system", "/sys/fs": "lies in /sys", "/dev/shm": "lies in /dev",
			"/boot": "system", "/boot/efi": "lies in /boot", "/run": "system", "/run/nfs": "lies in /run", "/root": "system", "/tmp/a": "lies in /tmp", "/bin": "system",
			"/lib64": "system", "/var/lib/nodehitch/agent": "lies in /var/lib/nodehitch", "/var/lib/nfs": "system", "/var/lib/docker": "system", "/var/lib/kubelet/pods": "lies in",
			"/var/lib/sudo/lectured": "lies in /var/lib/sudo", "/var/lib/polkit-1": "system", "/home/ubuntu/.ssh": ".ssh", "/srv/git/.ssh/keys": ".ssh",
			"/" + strings.Repeat("-", 62): "unit name", "/" + strings.Repeat("a/", 122) + "bc": "unit name",
		},
	},
	"PackagePath": {
		parse: grammar.PackagePath,
		takes: map[string]string{
			"Files/kubernetes/nfs-pv1.yaml": "Files/kubernetes/nfs-pv1.yaml", "./Scripts/a.sh": "Scripts/a.sh", "a": "a", "...": "...", "my file.yaml": "my file.yaml", "Dateien/ä.yaml": "Dateien/ä.yaml",
		},
		refuse: map[string]string{
			"": "empty", "/a": "absolute", "../a": `".."`, "a/..": `".."`, "a/../../b": `".."`, "./../a": `".."`, "././a": `"."`, ".": `"."`, "./": "empty part", "a/": "empty part", "a//b": "empty part", "https://r/image.tar": "is a URL", ".//a": "empty part",
			"a\\b": "backslash", "a\nb": "white space", "a\tb": "white space", "a\x00": "control", "a\xff": "UTF-8", strings.Repeat("a/", 600) + "b": "1024", strings.Repeat("a", 256): "255",
		},
	},
	"CIDR": {
		parse: func(s string) (string, error) { p, err := grammar.CIDR(s); return p.String(), err },
		takes: same("10.10.0.0/24", "192.168.3.0/16", "0.0.0.0/0", "10.0.0.1/32", "fd00::/64", "::/0"),
		refuse: map[string]string{
			"": "CIDR", "10.10.0.0": "CIDR", "10.10.0.0/33": "CIDR", "10.10.0/24": "CIDR", "10.10.0.0/-1": "CIDR", "10.10.0.0/024": "CIDR", "10.10.0.0/255.255.255.0": "CIDR",
			"10.10.0.0/24,10.20.0.0/24": "CIDR", " 10.10.0.0/24": "CIDR", "010.10.0.0/24": "CIDR", "fd00::/129": "CIDR", "fe80::%eth0/64": "CIDR", "::ffff:10.0.0.0/104": "write it as IPv4",
		},
	},
	"ExportClient": {
		parse: func(s string) (string, error) { c, err := grammar.ExportClient(s); return c.String(), err },
		takes: map[string]string{
			"10.10.0.0/24": "10.10.0.0/24", "10.10.0.7/24": "10.10.0.0/24", "10.10.0.7": "10.10.0.7", "fd00:0::1": "fd00::1", "fd00::5/64": "fd00::/64",
			"node1": "node1", "node-1.example.com": "node-1.example.com", "0.0.0.0/0": "0.0.0.0/0", "*": "*",
			"10.10.0.0/255.255.255.0": "10.10.0.0/24", "10.10.0.7/255.255.0.0": "10.10.0.0/16", "10.10.0.7/255.255.255.255": "10.10.0.7/32", "10.10.0.0/0.0.0.0": "0.0.0.0/0",
		},
		refuse: map[string]string{
			"": "empty", "**": "wildcard", "10.10.0.0/255.0.255.0": "holes", "fd00::/255.255.255.0": "CIDR", "10.10.0.0/ffff::": "CIDR", "rw": "export option", "no_root_squash": "export option", "*.example.com": "wildcard", "node?": "wildcard", "node[12]": "wildcard", "[10.10.0.0/24]": "without brackets", "@group": "netgroup", "10.10.0.0/24(rw)": "options", "(rw)": "options",
			"10.10.0.0/24,rw": "more than one", "a b": "more than one", "a\tb": "more than one", "a\nb": "more than one", "10.10.0.256": "not an IP", "10.10.0": "not an IP", "1": "not an IP", "0.0.0.0": "0.0.0.0/0", "::": "::/0",
			"224.0.0.1": "multicast", "fe80::1%eth0": "zone", "::ffff:10.0.0.1": "write 10.0.0.1", "fd00:::1": "not an IP", "a..b": "host name", "-a": "host name", "a-": "host name", "a_b": "host name",
			"a.": "host name", strings.Repeat("a", 64): "host name", strings.Repeat("a.", 127) + "ab": "253", "-o": "host name", "10.10.0.0/24#x": "CIDR", `"a"`: "host name", "a:b": "not an IP",
		},
	},
	"RegistryServer": {
		parse: func(s string) (string, error) { _, err := grammar.RegistryServer(s); return s, err },
		takes: same("192.168.0.10:5000", "registry.example.com", "registry.example.com:443", "localhost:5000", "localhost", "registry", "[fd00::10]:5000", "[fd00::10]", "Registry.Example.com", "10.0.0.1", "r:65535"),
		refuse: map[string]string{
			"": "empty", "https://r": "scheme", "r/v2": "path", "r:5000/": "path", "u:p@r": "user", "fd00::10": "brackets", "fd00::10:5000": "brackets", "[fd00::10": "brackets", "[fd00::10]5000": "no :port",
			"[10.0.0.1]": "IPv6", "[fe80::1%eth0]": "IPv6", "[::ffff:10.0.0.1]": "IPv6", "[::]:5000": "IPv6", "[]": "IPv6", ":5000": "no host", "r:": "without a port", "r:0": "1 to 65535", "r:65536": "1 to 65535",
			"r:-1": "1 to 65535", "r:+1": "1 to 65535", "r:05": "1 to 65535", "r:http": "1 to 65535", "r :5000": "host name", "r\n": "host name", "10.0.0.300:5000": "not an IP", "0.0.0.0:5000": "no host", "_r": "host name", "..": "host name", "[fd00::1]:": "without a port",
		},
	},
	"HostsLine": {
		parse: func(s string) (string, error) {
			addr, names, err := grammar.HostsLine(s)
			return addr.String() + " " + strings.Join(names, " "), err
		},
		takes: map[string]string{
			"192.168.0.20 registry.example.com": "192.168.0.20 registry.example.com", " 192.168.0.20\tregistry.example.com  registry ": "192.168.0.20 registry.example.com registry",
			"fd00::20 registry": "fd00::20 registry", "127.0.0.1 registry": "127.0.0.1 registry",
		},
		refuse: map[string]string{
			"": "empty", " ": "<IP address>", "192.168.0.20": "<IP address>", "registry.example.com": "<IP address>", "registry 192.168.0.20": "begin with an IP", "192.168.0.20 a\n10.0.0.1 b": "one line", "192.168.0.20 a\rb": "one line",
			"192.168.0.20 a\x00": "one line", "192.168.0.20 a # b": "comment", "#192.168.0.20 a": "comment", "192.168.0.20 localhost": "node itself", "10.0.0.1 a ip6-localhost": "node itself", "10.0.0.1 LOCALHOST.localdomain": "node itself",
			"192.168.0.20 a_b": "host name", "192.168.0.20 10.0.0.1": "not an IP", "0.0.0.0 a": "no host", "224.0.0.1 a": "multicast", "fe80::1%eth0 a": "zone", "::ffff:1.2.3.4 a": "write 1.2.3.4", "192.168.0.300 a": "begin with an IP", "192.168.0.20/24 a": "begin with an IP", "192.168.0.20\u00a0a": "one line",
		},
	},
	"Port": {
		parse:  func(s string) (string, error) { _, err := grammar.Port(s); return s, err },
		takes:  same("1", "80", "5000", "65535"),
		refuse: map[string]string{"": "1 to", "0": "1 to", "65536": "1 to", "-1": "1 to", "+1": "1 to", "05000": "1 to", "5000.0": "1 to", "5e3": "1 to", " 5000": "1 to", "0x50": "1 to", "5_000": "1 to", strings.Repeat("9", 400): "1 to"},
	},
	"ResourceName": {
		parse:  grammar.ResourceName,
		takes:  same("CP1", "storage_server_CP", "a b", "ü", "a.b-c:d", strings.Repeat("ü", 255)),
		refuse: map[string]string{"": "empty", "a/b": "slash", "/": "slash", "a\n": "not printable", "a\x00b": "not printable", "a\u202eb": "not printable", "a\xff": "not printable", " a": "white space", "a ": "white space", strings.Repeat("a", 256): "at most 255"},
	},
	"Label": {
		parse:  grammar.Label,
		takes:  same("simple", "kubernetes_vim", "a/b", "ü"),
		refuse: map[string]string{"": "empty", "a\tb": "not printable", " ": "white space", strings.Repeat("a", 256): "at most 255"},
	},
	"NoProxy": {
		parse: grammar.NoProxy,
		takes: map[string]string{
			"10.0.0.1": "10.0.0.1", "a,b": "a,b", "a, b": "a,b", " a ,\tb ,": "a,b", ",a,,b": "a,b", ".example.com,*": ".example.com,*",
		},
		refuse: map[string]string{"": "empty", " , ": "empty", "a b": "white space", "a,\nb": "white space", "a\x00": "control", strings.Repeat("a,", 4096): "4096"},
	},
	"UserName": {
		parse:  grammar.UserName,
		takes:  same("ubuntu", "root", "_apt", "a.b-c_d", "Admin", "u1", strings.Repeat("a", 32), "user@example.com", "a@b"),
		refuse: map[string]string{"": "Linux", "a@": "Linux", "@a": "Linux", "a@b@c": "Linux", "a@.b": "Linux", "a@b/c": "Linux", "a@b\n": "Linux", "a@" + strings.Repeat("b", 222): "Linux", "1a": "Linux", "-a": "Linux", ".": "Linux", "..": "Linux", "a/b": "Linux", "a b": "Linux", "a:b": "Linux", "a\n": "Linux", "ü": "Linux", strings.Repeat("a", 33): "Linux", "a$": "Linux"},
	},
	"ObjectName": {
		parse:  grammar.ObjectName,
		takes:  same("nfs-pv1", "a", "a.b-c.d1", "1a", strings.Repeat("a", 253)),
		refuse: map[string]string{"": "Kubernetes", "NFS": "Kubernetes", "a_b": "Kubernetes", "-a": "Kubernetes", "a-": "Kubernetes", "a..b": "Kubernetes", ".a": "Kubernetes", "a\n": "Kubernetes", "../a": "Kubernetes", strings.Repeat("a", 254): "Kubernetes"},
	},
	"KubernetesVersion": {
		parse: grammar.KubernetesVersion,
		takes: same("1.31.0", "1.34.4", "1.100.0"),
		refuse: map[string]string{
			"": "three numbers", "1.34": "three numbers", "v1.34": "three numbers", "v1.34.4": "write 1.34.4", "1.34.4-rc.1": "three numbers", "1.34.4+k3s1": "three numbers", "1.034.4": "three numbers",
			"1.34.4\n": "three numbers", " 1.34.4": "three numbers", "latest": "three numbers", "1.30.9": "too old", "1.9.0": "expected 1.31.0 or later", "2.0.0": "Kubernetes 1", "0.34.0": "Kubernetes 1", "1.123456.0": "three numbers",
		},
	},
	"ImageRepository": {
		parse: grammar.ImageRepository,
		takes: same("registry.k8s.io", "10.10.0.3:5000", "10.10.0.3", "[fd00::3]:5000/k8s", "registry.example.com:5000/mirror/k8s.io/a_b--c", "registry:5000", "docker.io/mine", "localhost/k8s", "registry.example.com/"+strings.Repeat("a", 179)),
		refuse: map[string]string{
			"": "empty", "https://registry.k8s.io": "scheme", "user:secret@registry.k8s.io": "user", "registry.k8s.io@sha256:0b5e": "digest", "mine": "docker.io/mine", "mine/k8s": "docker.io/mine/k8s",
			"registry.k8s.io/": "the part \"\"", "registry.k8s.io//a": "the part \"\"", "registry.k8s.io/K8s": "lower-case", "registry.k8s.io/a:v1": "neither a tag", "registry.k8s.io/../a": "lower-case", "registry.k8s.io/a b": "lower-case", "registry.k8s.io/a\n": "lower-case",
			"registry.k8s.io:0": "TCP port", "fd00::3": "brackets", "registry .io": "host name", "-r.io": "host name", "/a": "no host", ":5000/a": "no host", "registry.example.com/" + strings.Repeat("a", 180): "201 bytes",
		},
	},
	"Opaque": {
		parse:  grammar.Opaque,
		takes:  same("http://user1:password1@host1:port1", "10.0.0.1,registry.example.com", "x", "p'a\"s$s`w\\o%rd"),
		refuse: map[string]string{"": "empty", "a b": "white space", "a\n": "white space", "a\x00": "control", "a\u200b": "invisible", "a\xff": "UTF-8", strings.Repeat("a", 4097): "4097 bytes"},
	},
}

func TestGrammars(t *testing.T) {
	for name, g := range tables {
		t.Run(name, func(t *testing.T) {
			for s, want := range g.takes {
				got, err := g.parse(s)
				if err != nil || got != want {
					t.Errorf("%q gives %q, %v; want %q", s, got, err, want)
				}
			}
			for s, word := range g.refuse {
				got, err := g.parse(s)
				if err == nil {
					t.Errorf("%q is taken as %q", s, got)
				} else if !strings.Contains(err.Error(), word) {
					t.Errorf("%q: %v; want a message with %q", s, err, word)
				} else if strings.ContainsAny(err.Error(), "\n\r\x00\u202e") {
					t.Errorf("%q: the message contains control characters: %q", s, err)
				}
			}
		})
	}
}

func TestMessagesAreShortAndHoldNoPassword(t *testing.T) {
	for _, g := range tables {
		for _, s := range []string{"http://user1:hunter2@host1 x", "user:hunter2@r", "user:hunter2@r#\n", strings.Repeat("x\n", 10000)} {
			_, err := g.parse(s)
			if err != nil && (strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 600) {
				t.Errorf("%.300v (%d bytes)", err, len(err.Error()))
			}
		}
	}
}

func TestUnderGoesByWholeComponents(t *testing.T) {
	for _, test := range []struct {
		child, parent string
		want          bool
	}{
		{"/volume", "/volume", true}, {"/volume/pv1", "/volume", true},
		{"/volumes", "/volume", false}, {"/", "/volume", false}, {"/volume", "/volume/pv1", false},
	} {
		if got := grammar.Under(test.child, test.parent); got != test.want {
			t.Errorf("Under(%q, %q) = %t", test.child, test.parent, got)
		}
	}
}

// FuzzGrammars asserts that what a grammar makes of a text it takes again,
// unchanged, and that nothing taken contains what would end a line of a file.
func FuzzGrammars(f *testing.F) {
	for _, g := range tables {
		for s := range g.takes {
			f.Add(s)
		}
		for s := range g.refuse {
			f.Add(s)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, g := range tables {
			first, err := g.parse(s)
			if err != nil {
				if strings.ContainsAny(err.Error(), "\n\x00") {
					t.Errorf("%s: the message contains control characters: %q", name, err)
				}
				continue
			}
			if strings.ContainsAny(first, "\n\r\x00") {
				t.Errorf("%s takes %q", name, first)
			}
			if second, err := g.parse(first); err != nil || second != first {
				t.Errorf("%s makes %q of %q, and of that %q, %v", name, first, s, second, err)
			}
		}
	})
}
