package containerdconf

import (
	"fmt"
	"strings"
)

// Host is a registry as hosts.toml describes it.
type Host struct {
	Server  string // host or host:port, an IPv6 address in brackets
	HTTPS   bool
	CAFiles []string // absolute paths of PEM, trusted besides the system's own
	Client  []Pair
}

// Pair is a client certificate, by its files.
type Pair struct {
	Certificate string
	Key         string // "" if the certificate's file has it
}

// HostsFile is the whole content of hosts.toml for a registry without mirrors. It sets no
// capabilities: containerd then uses all that it knows, at least pull, resolve and push.
//
// The server is at the root and not in host, which containerd's manual uses for mirrors:
// containerd asks a server that is in both twice, and the go-toml of containerd 1.x accepts
// no key with ] in it, as in an IPv6 address. 1.x accepts no file without the table host
// (remotes/docker/config/hosts.go, getSortedHosts), so an empty one is written.
func HostsFile(h Host) []byte {
	scheme := "http"
	if h.HTTPS {
		scheme = "https"
	}
	var b strings.Builder
	b.WriteString("# Kept by nodehitch-agent: what is changed here is put back.\n")
	fmt.Fprintf(&b, "server = %s\n", quoted(scheme+"://"+h.Server))
	if h.HTTPS && len(h.CAFiles) > 0 {
		fmt.Fprintf(&b, "ca = %s\n", listed(h.CAFiles...))
	}
	if h.HTTPS && len(h.Client) > 0 {
		var pairs []string
		for _, p := range h.Client {
			if p.Key == "" {
				pairs = append(pairs, listed(p.Certificate, p.Certificate))
			} else {
				pairs = append(pairs, listed(p.Certificate, p.Key))
			}
		}
		fmt.Fprintf(&b, "client = [%s]\n", strings.Join(pairs, ", "))
	}
	b.WriteString("\n[host] # no mirrors; containerd 1.x needs the table\n")
	return []byte(b.String())
}

// listed is a list of strings in TOML.
func listed(texts ...string) string {
	var all []string
	for _, text := range texts {
		all = append(all, quoted(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// DirectoryName is the directory below config_path for a server.
func DirectoryName(server string) string { return server }

// DirectoryNamesBefore are the directories where containerd looks before that one, in 1.5
// to 2.4 (remotes/docker/config, hostPaths and hostDirectory). It reads only the first that
// exists, so such a directory, which an operator made, hides ours.
func DirectoryNamesBefore(server string) []string {
	if colon := strings.LastIndexByte(server, ':'); colon > 0 {
		return []string{server[:colon] + "_" + server[colon+1:] + "_"}
	}
	return nil
}

// quoted is a basic string of TOML.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
