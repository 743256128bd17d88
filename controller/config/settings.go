package config

import (
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// EnvironmentPrefix starts the names of the environment variables.
const EnvironmentPrefix = "NODEHITCH_CONTROLLER_"

// Setting is one value of the configuration as flag and environment variable.
type Setting struct {
	// Flag is the flag's name, without dashes.
	Flag string
	// Usage is one line for --help. Lists are separated by commas.
	Usage string
	value
}

type value struct {
	// Type is what --help shows: string, strings, int or bool.
	Type string
	// set puts the text into a Config; its error is what was expected.
	set func(c *Config, text string) error
}

// Variable is the setting's environment variable.
func (s Setting) Variable() string {
	return EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
}

// Pointer is the setting's place in the file.
func (s Setting) Pointer() string {
	at, name := fault.Root, s.Flag
	for _, object := range []string{"agent-upgrade", "attestation", "log", "openstack", "replica", "store", "etcd", "ui-certificate"} {
		if rest, ok := strings.CutPrefix(name, object+"-"); ok {
			at, name = at.Key(member(object)), rest
		}
	}
	return string(at.Key(member(name)))
}

// member is a flag's name as a member of the file is called.
func member(flag string) string {
	var name strings.Builder
	for i, word := range strings.Split(flag, "-") {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		name.WriteString(word)
	}
	return name.String()
}

// Settings is every setting that a flag or the environment can give: all of them.
var Settings = []Setting{
	{"listen", "TCP address of the HTTPS API, host:port", text(func(c *Config) *string { return &c.Listen })},
	{"names", "DNS names and IP addresses of the serving certificate, separated by commas", list(func(c *Config) *[]string { return &c.Names })},
	{"controller-urls", "base URLs that agents learn with their polls, separated by commas", list(func(c *Config) *[]string { return &c.ControllerURLs })},
	{"advertise-urls", "base URLs that user_data gives to agents, separated by commas", list(func(c *Config) *[]string { return &c.AdvertiseURLs })},
	{"data-directory", "directory of store, CA and package files", text(func(c *Config) *string { return &c.DataDirectory })},
	{"socket", "unix socket on which root of this machine is an operator; empty: none", text(func(c *Config) *string { return &c.Socket })},
	{"metrics-listen", "TCP address of /metrics, plain HTTP; empty: none", text(func(c *Config) *string { return &c.MetricsListen })},
	{"metrics-lost-vnfcs", "the metrics name lost VNFCs, for alerts by which Tacker heals them", boolean(func(c *Config) *bool { return &c.MetricsLostVNFCs })},
	{"seal-key-file", "file with the key that seals secrets", text(func(c *Config) *string { return &c.SealKeyFile })},
	{"agent-directory", "directory of the agents that VMs download, nodehitch-agent-<GOARCH>", text(func(c *Config) *string { return &c.AgentDirectory })},
	{"agent-upgrade-mode", "manual, or auto: agents are upgraded when the controller is of another version", text(func(c *Config) *api.AgentUpgradeMode { return &c.AgentUpgrade.Mode })},
	{"agent-upgrade-max-unavailable", "how many nodes may be in flight at a time while agents are upgraded: a number, or a percentage such as 10%", text(func(c *Config) *Share { return &c.AgentUpgrade.MaxUnavailable })},
	{"agent-upgrade-pause-seconds", "least time between two waves of an upgrade of agents, in seconds (0 to 86400)", integer(func(c *Config, n int64) { c.AgentUpgrade.PauseSeconds = int(n) })},
	{"poll-seconds", "how long a long poll is held, in seconds (5 to 300)", integer(func(c *Config, n int64) { c.PollSeconds = int(n) })},
	{"converge-seconds", "how often agents plan again, in seconds (10 to 86400)", integer(func(c *Config, n int64) { c.ConvergeSeconds = int(n) })},
	{"failure-grace-seconds", "how long nothing changes before an operation fails that no waiting completes, in seconds (60 to 86400)", integer(func(c *Config, n int64) { c.FailureGraceSeconds = int(n) })},
	{"ui-certificate-names", "DNS names by which browsers, and no agents, reach the controller, separated by commas", list(func(c *Config) *[]string { return &c.UICertificate.Names })},
	{"ui-certificate-file", "certificate for these names that browsers know, with its intermediates, PEM", text(func(c *Config) *string { return &c.UICertificate.File })},
	{"ui-certificate-key", "private key of that certificate, PEM", text(func(c *Config) *string { return &c.UICertificate.Key })},
	{"max-file-bytes", "largest package file, in bytes", integer(func(c *Config, n int64) { c.MaxFileBytes = n })},
	{"store-etcd-endpoints", "URLs of the etcd that controllers share, separated by commas; empty: a file in the data directory", list(func(c *Config) *[]string { return &c.Store.Etcd.Endpoints })},
	{"store-etcd-prefix", "prefix of all keys in etcd", text(func(c *Config) *string { return &c.Store.Etcd.Prefix })},
	{"store-etcd-ca", "root certificates of etcd's members, PEM; empty: the system's", text(func(c *Config) *string { return &c.Store.Etcd.CA })},
	{"store-etcd-cert", "client certificate for etcd, PEM", text(func(c *Config) *string { return &c.Store.Etcd.Cert })},
	{"store-etcd-key", "private key of that certificate, PEM", text(func(c *Config) *string { return &c.Store.Etcd.Key })},
	{"store-etcd-username", "user of etcd's own authentication", text(func(c *Config) *string { return &c.Store.Etcd.Username })},
	{"store-etcd-password-file", "file with that user's password", text(func(c *Config) *string { return &c.Store.Etcd.PasswordFile })},
	{"replica-id", "name of this controller among those that share etcd; empty: the host name", text(func(c *Config) *string { return &c.Replica.ID })},
	{"replica-url", "URL at which the other controllers reach --replica-listen; empty: this one serves while it is the leader only", text(func(c *Config) *string { return &c.Replica.URL })},
	{"replica-listen", "TCP address for the other controllers, host:port", text(func(c *Config) *string { return &c.Replica.Listen })},
	{"log-format", "text or json", text(func(c *Config) *string { return &c.Log.Format })},
	{"log-level", "debug, info, warn or error", text(func(c *Config) *string { return &c.Log.Level })},
	{"openstack-clouds-file", "clouds.yaml with the entry of --openstack-cloud", text(func(c *Config) *string { return &c.OpenStack.CloudsFile })},
	{"openstack-cloud", "entry of the clouds file by which stacks and servers are looked up; empty: none", text(func(c *Config) *string { return &c.OpenStack.Cloud })},
	{"openstack-vim-connection-info", "use the credentials in an instance's vimConnectionInfo", boolean(func(c *Config) *bool { return &c.OpenStack.VIMConnectionInfo })},
	{"openstack-timeout-seconds", "how long one call of a cloud may take, in seconds (1 to 300)", integer(func(c *Config, n int64) { c.OpenStack.TimeoutSeconds = int(n) })},
	{"attestation-mode", "nova or token; empty: nova where a cloud is configured", text(func(c *Config) *string { return &c.Attestation.Mode })},
	{"attestation-nonce", "if-allowed, required or off", text(func(c *Config) *string { return &c.Attestation.Nonce })},
	{"attestation-source-address", "enrollments have to come from an address of the server", boolean(func(c *Config) *bool { return &c.Attestation.SourceAddress })},
}

func text[T ~string](field func(*Config) *T) value {
	return value{"string", func(c *Config, text string) error {
		*field(c) = T(text)
		return nil
	}}
}

func list(field func(*Config) *[]string) value {
	return value{"strings", func(c *Config, text string) error {
		*field(c) = nil
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*field(c) = append(*field(c), item)
			}
		}
		return nil
	}}
}

func integer(put func(*Config, int64)) value {
	return value{"int", func(c *Config, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errNotAnInteger
		}
		put(c, n)
		return nil
	}}
}

func boolean(field func(*Config) *bool) value {
	return value{"bool", func(c *Config, text string) error {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errNotABoolean
		}
		*field(c) = b
		return nil
	}}
}
