package containerdconf

import (
	"fmt"
	"strings"
)

// Host is a registry as hosts.toml describes it.
type Host struct {
	Server string // host or host:port, an IPv6 address in brackets
	HTTPS  bool
	CAFile string // absolute path of PEM, "" for the system's own alone
}

// HostsFile is the whole content of hosts.toml for a registry without mirrors.
func HostsFile(h Host) []byte {
	scheme := "http"
	if h.HTTPS {
		scheme = "https"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Kept by nodehitch-agent: what is changed here is put back.\n")
	fmt.Fprintf(&b, "server = %s\n", quoted(scheme+"://"+h.Server))
	fmt.Fprintf(&b, "capabilities = [\"pull\", \"resolve\", \"push\"]\n")
	if h.CAFile != "" && h.HTTPS {
		fmt.Fprintf(&b, "ca = %s\n", quoted(h.CAFile))
	}
	return []byte(b.String())
}

// DirectoryName is the directory below config_path where every containerd since 1.5
// looks for the hosts.toml of a server.
func DirectoryName(server string) string { return server }

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
