// Package config is the controller's configuration: one YAML file, the
// environment and command line flags, read strictly, with every fault reported
// at once. A flag wins over the environment, that over the file, and that over
// the default.
package config

import (
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// The values of Attestation.Mode.
const (
	// AttestToken accepts a server id that comes with the join token, for a
	// server that the topology expects and that has no live identity.
	AttestToken = "token"
	// AttestNova asks Nova and Heat as well: the server exists, in the instance's
	// stack, and the machine reads what its metadata service alone tells it.
	AttestNova = "nova"
)

// The values of Attestation.Nonce.
const (
	// NonceIfAllowed accepts a server without the nonce if the credential may not write a
	// server's metadata, and says so.
	NonceIfAllowed = "if-allowed"
	// NonceRequired refuses a server that no nonce can be given to.
	NonceRequired = "required"
	// NonceOff asks for none: for clouds whose servers have no metadata service.
	NonceOff = "off"
)

// CredentialName is the systemd credential that contains the seal key where
// SealKeyFile is not set (LoadCredential= or LoadCredentialEncrypted= of the unit).
const CredentialName = "nodehitch-seal-key"

// Config is everything that can be set. The zero value is not usable; begin with
// Default.
type Config struct {
	// Listen is the TCP address of the HTTPS API, host:port; no host is all of
	// the machine's. Default ":8443". A socket `https` from systemd replaces it.
	Listen string `json:"listen"`
	// Names are the DNS names and IP addresses by which agents and clients reach
	// the controller: they go into the serving certificate. Default: the machine's
	// host name. localhost, 127.0.0.1 and ::1 are always added.
	Names []string `json:"names"`
	// AdvertiseURLs are the base URLs that user_data gives to agents, in order of
	// preference. Default: https://<name>:<port of listen> for each of Names.
	AdvertiseURLs []string `json:"advertiseUrls"`
	// ControllerURLs are base URLs that enrolled agents learn with their polls, at most
	// 8, so that the controller can move without a shell on any node. They are
	// preferred, in their order, to those that user_data gave. Default: none.
	ControllerURLs []string `json:"controllerUrls"`
	// DataDirectory has the store, the CA, and package files. Default
	// "/var/lib/nodehitch/controller".
	DataDirectory string `json:"dataDirectory"`
	// Socket is the path of the unix socket on which root of this machine is an
	// operator without a token; "" has none. Default "/run/nodehitch/controller.sock".
	// A socket `api` from systemd replaces it.
	Socket string `json:"socket"`
	// MetricsListen is the TCP address of GET /metrics (plain HTTP); "" has none.
	// Default "127.0.0.1:8643". A socket `metrics` from systemd replaces it.
	MetricsListen string `json:"metricsListen"`
	// MetricsLostVNFCs has the metrics name the VNFCs that only another server brings back, with
	// the ids of their instances, so that an alert can have Tacker heal them. Default false.
	MetricsLostVNFCs bool `json:"metricsLostVnfcs"`
	// SealKeyFile contains the key that seals secrets in the store. Keep a copy apart from
	// the backup. Default: the systemd credential nodehitch-seal-key if the unit has one,
	// else seal.key in DataDirectory, which is made at the first start.
	SealKeyFile string `json:"sealKeyFile"`
	// KeyCredential is the path of that systemd credential where it is used, and
	// SealKeyFile then is ""; Load finds it, no setting names it.
	KeyCredential string `json:"-"`
	// AgentDirectory has the agents that GET /v1/agent/{arch} serves, as
	// nodehitch-agent-<GOARCH>. Default "/usr/lib/nodehitch/agents".
	AgentDirectory string `json:"agentDirectory"`
	// AgentUpgrade is how the agents of enrolled nodes are upgraded.
	AgentUpgrade AgentUpgrade `json:"agentUpgrade"`
	// PollSeconds is how long a long poll is held before it is answered with 304,
	// in seconds, give or take 10 %; from 5 to 300. A node unheard of for three times
	// as long is lost. Default 30.
	PollSeconds int `json:"pollSeconds"`
	// ConvergeSeconds is how often an agent plans again without being told, which
	// is what corrects drift, in seconds; from 10 to 86400. Default 300.
	ConvergeSeconds int `json:"convergeSeconds"`
	// FailureGraceSeconds is for how long nothing changes before an END fails whose nodes
	// have failed so that no waiting mends it, in seconds; from 60, an agent's longest
	// pause between two attempts, to 86400. Default 180.
	FailureGraceSeconds int `json:"failureGraceSeconds"`
	// UICertificate is a certificate that browsers know, for the status page. Default: none,
	// browsers get the certificate that agents get.
	UICertificate UICertificate `json:"uiCertificate"`
	// MaxFileBytes is the largest package file that is taken, in bytes. Default
	// 10737418240 (10 GiB).
	MaxFileBytes int64 `json:"maxFileBytes"`
	// Store is where the records are. Default: a file in DataDirectory.
	Store Store `json:"store"`
	// Replica is what this controller is called among those that share the store.
	Replica Replica `json:"replica"`
	// Log is how the controller logs, on standard error.
	Log Log `json:"log"`
	// OpenStack is where the controller finds stacks, servers and volumes on its own.
	OpenStack OpenStack `json:"openstack"`
	// Attestation is how much of a server's claim to be itself is proven at enrollment.
	Attestation Attestation `json:"attestation"`
}

// Store is where the records are.
type Store struct {
	// Etcd is the etcd that several controllers share. Default: none.
	Etcd Etcd `json:"etcd"`
}

// Etcd is an etcd and how to be admitted there. All files are read when the controller
// connects.
type Etcd struct {
	// Endpoints are the URLs of its members, https://host:port.
	Endpoints []string `json:"endpoints"`
	// Prefix is that of all keys: controllers with the same one share their state. Default
	// "/nodehitch".
	Prefix string `json:"prefix"`
	// CA is a file with the root certificates that its members' certificates are under, PEM.
	// Default: the system's.
	CA string `json:"ca"`
	// Cert and Key are files with the client's certificate and its private key, PEM: both, or
	// none. A new one is used from the next connection on.
	Cert string `json:"cert"`
	Key  string `json:"key"`
	// Username is that of etcd's own authentication, and PasswordFile a file with its password:
	// both, or none.
	Username     string `json:"username"`
	PasswordFile string `json:"passwordFile"`
}

// Configured reports whether there is one.
func (e Etcd) Configured() bool { return len(e.Endpoints) > 0 }

// Replica is what a controller is called among those that share a store.
type Replica struct {
	// ID names it in logs, and in etcd if it is the leader. Default: the machine's host name.
	ID string `json:"id"`
	// URL is where the other controllers reach Listen, https://host:port. With both set, a
	// controller that is not the leader serves too, by handing requests to the leader. Default:
	// none.
	URL string `json:"url"`
	// Listen is the TCP address for the other controllers, host:port.
	Listen string `json:"listen"`
}

// Serves reports whether this controller also serves while it is not the leader.
func (r Replica) Serves() bool { return r.URL != "" }

// UICertificate is a certificate that browsers know. Its fields are all set, or none.
type UICertificate struct {
	// Names are the DNS names by which browsers reach the controller. No agent may use them.
	Names []string `json:"names"`
	// File is the certificate in PEM, and then its intermediates. It is read again when it
	// changes, as Key is.
	File string `json:"file"`
	// Key is the file with its private key in PEM.
	Key string `json:"key"`
}

// Configured reports whether there is one.
func (u UICertificate) Configured() bool { return u.File != "" }

// AgentUpgrade is how the agents of enrolled nodes are upgraded.
type AgentUpgrade struct {
	// Mode is "manual", an operator asks for each upgrade, or "auto", one begins when the
	// controller is of another version. Default "manual".
	Mode api.AgentUpgradeMode `json:"mode"`
	// MaxUnavailable is how many nodes may be in flight at a time, such as 5, or 10% of
	// those whose agent the controller manages. Default "10%".
	MaxUnavailable Share `json:"maxUnavailable"`
	// PauseSeconds is the least time between two waves, in seconds, from 0 to 86400.
	// Default 0.
	PauseSeconds int `json:"pauseSeconds"`
}

// Attestation is what a server has to prove at enrollment.
type Attestation struct {
	// Mode is "token" or "nova". Default: "nova" where OpenStack is configured, else
	// "token".
	Mode string `json:"mode"`
	// Nonce reports whether nova has a server read a nonce from its metadata service:
	// "if-allowed", "required" or "off". Default "if-allowed".
	Nonce string `json:"nonce"`
	// SourceAddress requires of nova that an enrollment comes from an address that Nova
	// knows of the server. Routers that translate addresses make that false for good
	// servers. Default false.
	SourceAddress bool `json:"sourceAddress"`
}

// OpenStack is how the controller reaches clouds. The zero value reaches none.
type OpenStack struct {
	// CloudsFile is a clouds.yaml (its secrets may stand in a secure.yaml beside it).
	// Default "/etc/nodehitch/clouds.yaml".
	CloudsFile string `json:"cloudsFile"`
	// Cloud is the entry of CloudsFile for instances that bring no credentials of their
	// own; "" has none.
	Cloud string `json:"cloud"`
	// VIMConnectionInfo has the credentials in an instance's vimConnectionInfo used,
	// before those of Cloud. Default false.
	VIMConnectionInfo bool `json:"vimConnectionInfo"`
	// TimeoutSeconds is how long one call may take, in seconds, from 1 to 300; default 30.
	TimeoutSeconds int `json:"timeoutSeconds"`
}

// Configured reports whether any instance can have a cloud.
func (o OpenStack) Configured() bool { return o.Cloud != "" || o.VIMConnectionInfo }

// Log is the shape of the log.
type Log struct {
	// Format is "text" or "json". Default "text".
	Format string `json:"format"`
	// Level is the least that is logged: "debug", "info", "warn" or "error".
	// Default "info".
	Level string `json:"level"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Listen:              ":8443",
		DataDirectory:       "/var/lib/nodehitch/controller",
		Socket:              client.DefaultSocket,
		MetricsListen:       "127.0.0.1:8643",
		AgentDirectory:      "/usr/lib/nodehitch/agents",
		AgentUpgrade:        AgentUpgrade{Mode: api.UpgradeManually, MaxUnavailable: "10%"},
		PollSeconds:         30,
		ConvergeSeconds:     300,
		FailureGraceSeconds: 180,
		MaxFileBytes:        10 << 30,
		Store:               Store{Etcd: Etcd{Prefix: "/nodehitch"}},
		Log:                 Log{Format: "text", Level: "info"},
		OpenStack:           OpenStack{CloudsFile: "/etc/nodehitch/clouds.yaml", TimeoutSeconds: 30},
		Attestation:         Attestation{Nonce: NonceIfAllowed},
	}
}

// complete fills in the defaults that depend on the machine or on other fields.
func (c *Config) complete(getenv func(string) string, hostname func() (string, error)) error {
	needsID := c.Store.Etcd.Configured() && c.Replica.ID == ""
	if len(c.Names) == 0 || needsID {
		name, err := hostname()
		if err != nil {
			return err
		}
		if len(c.Names) == 0 {
			c.Names = []string{name}
		}
		if needsID {
			c.Replica.ID = name
		}
	}
	if len(c.AdvertiseURLs) == 0 {
		_, port, _ := net.SplitHostPort(c.Listen)
		for _, name := range c.Names {
			u := url.URL{Scheme: "https", Host: net.JoinHostPort(name, port)}
			c.AdvertiseURLs = append(c.AdvertiseURLs, u.String())
		}
	}
	if c.Attestation.Mode == "" {
		c.Attestation.Mode = AttestToken
		if c.OpenStack.Configured() {
			c.Attestation.Mode = AttestNova
		}
	}
	if c.SealKeyFile == "" {
		if path, ok := credential(getenv); ok {
			c.KeyCredential = path
			return nil
		}
		c.SealKeyFile = filepath.Join(c.DataDirectory, "seal.key")
	}
	return nil
}

// credential is the path of the seal key among the unit's credentials.
func credential(getenv func(string) string) (string, bool) {
	dir := getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", false
	}
	path := filepath.Join(dir, CredentialName)
	_, err := os.Stat(path)
	return path, err == nil
}
