package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

var dnsName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// validate is every fault of the values, wherever they came from; the place is
// the pointer of the field.
func (c *Config) validate() fault.List {
	var v validation
	v.address(c.Listen, "/listen", false)
	v.address(c.MetricsListen, "/metricsListen", true)
	for i, name := range c.Names {
		v.name(name, fault.Root.Key("names").Index(i))
	}
	for i, u := range c.AdvertiseURLs {
		v.url(u, fault.Root.Key("advertiseUrls").Index(i))
	}
	for i, u := range c.ControllerURLs {
		v.url(u, fault.Root.Key("controllerUrls").Index(i))
	}
	if n := len(c.ControllerURLs); n > api.MaxControllerURLs {
		v.fault("/controllerUrls", "has %d URLs; expected at most %d", n, api.MaxControllerURLs)
	}
	v.path(c.DataDirectory, "/dataDirectory", false)
	v.path(c.Socket, "/socket", true)
	v.path(c.SealKeyFile, "/sealKeyFile", true)
	v.path(c.AgentDirectory, "/agentDirectory", false)
	v.oneOf(string(c.AgentUpgrade.Mode), "/agentUpgrade/mode", string(api.UpgradeManually), string(api.UpgradeAutomatically))
	if err := c.AgentUpgrade.MaxUnavailable.validate(); err != nil {
		v.fault("/agentUpgrade/maxUnavailable", "is %q; %v", string(c.AgentUpgrade.MaxUnavailable), err)
	}
	v.between(int64(c.AgentUpgrade.PauseSeconds), 0, 86400, "/agentUpgrade/pauseSeconds")
	v.between(int64(c.PollSeconds), 5, 300, "/pollSeconds")
	v.between(int64(c.ConvergeSeconds), 10, 86400, "/convergeSeconds")
	v.between(int64(c.FailureGraceSeconds), int64(api.LongestRetry/time.Second), 86400, "/failureGraceSeconds")
	v.between(c.MaxFileBytes, 1, 1<<50, "/maxFileBytes")
	v.uiCertificate(c.UICertificate)
	v.etcd(c.Store.Etcd)
	if u, err := url.Parse(c.Replica.URL); c.Replica.URL != "" && (err != nil || u.Hostname() == "" || u.Port() == "" || *u != (url.URL{Scheme: "https", Host: u.Host})) {
		v.fault("/replica/url", "is %s; expected https, a host and a port and nothing else, such as https://controller-a.example:8444", grammar.Show(c.Replica.URL))
	}
	v.address(c.Replica.Listen, "/replica/listen", true)
	if (c.Replica.URL == "") != (c.Replica.Listen == "") {
		v.fault("/replica", "has only one of url and listen; expected both, or none")
	}
	if c.Replica.URL != "" && !c.Store.Etcd.Configured() {
		v.fault("/replica", "has a url, and the store is not shared; expected store.etcd too, or no url")
	}
	if c.Replica.ID != "" && !replicaID.MatchString(c.Replica.ID) {
		v.fault("/replica/id", "is %s; expected 1 to 64 letters, digits, and . _ - between them", grammar.Show(c.Replica.ID))
	}
	v.oneOf(c.Log.Format, "/log/format", "text", "json")
	v.oneOf(c.Log.Level, "/log/level", "debug", "info", "warn", "error")
	v.path(c.OpenStack.CloudsFile, "/openstack/cloudsFile", false)
	v.between(int64(c.OpenStack.TimeoutSeconds), 1, 300, "/openstack/timeoutSeconds")
	if c.Attestation.Mode != "" {
		v.oneOf(c.Attestation.Mode, "/attestation/mode", AttestToken, AttestNova)
	}
	v.oneOf(c.Attestation.Nonce, "/attestation/nonce", NonceIfAllowed, NonceRequired, NonceOff)
	if c.Attestation.Mode == AttestNova && !c.OpenStack.Configured() {
		v.fault("/attestation/mode", "is nova, but no cloud is configured; set openstack.cloud or openstack.vimConnectionInfo, "+
			"or set it to token: then anyone who has the join token can enroll as any server that the topology expects")
	}
	if c.Attestation.Mode == AttestToken || c.Attestation.Mode == "" && !c.OpenStack.Configured() {
		const byToken = "asks for something that only Nova knows, and attestation is by token; set attestation.mode to nova, with a cloud, or leave this out"
		if c.Attestation.SourceAddress {
			v.fault("/attestation/sourceAddress", byToken)
		}
		if c.Attestation.Nonce == NonceRequired {
			v.fault("/attestation/nonce", byToken)
		}
	}
	return v.faults
}

// validateNames is the faults of names that have their defaults by now.
func (c *Config) validateNames() fault.List {
	var v validation
	agents := slices.Concat([]string{"localhost"}, c.Names)
	for _, text := range slices.Concat(c.AdvertiseURLs, c.ControllerURLs) {
		if u, err := url.Parse(text); err == nil { // it is valid
			agents = append(agents, u.Hostname())
		}
	}
	for i, name := range c.UICertificate.Names {
		if slices.ContainsFunc(agents, func(agent string) bool { return strings.EqualFold(agent, name) }) {
			v.fault(fault.Root.Key("uiCertificate").Key("names").Index(i), "is %q, by which agents reach the controller (names, advertiseUrls, controllerUrls), and they trust the controller's own certificate only; "+
				"expected a name that only browsers use", name)
		}
	}
	return v.faults
}

type validation struct{ faults fault.List }

func (v *validation) fault(at fault.At, format string, args ...any) {
	v.faults = append(v.faults, at.Fault(fmt.Sprintf(format, args...)))
}

func (v *validation) address(value string, at fault.At, optional bool) {
	if value == "" && optional {
		return
	}
	_, port, err := net.SplitHostPort(value)
	if n, numeric := strconv.ParseUint(port, 10, 16); err != nil || numeric != nil || (n == 0 && port != "0") {
		v.fault(at, "is %q; expected host:port or :port with a port up to 65535", value)
	}
}

func (v *validation) name(value string, at fault.At) {
	if _, err := netip.ParseAddr(value); err != nil && (len(value) > 253 || !dnsName.MatchString(value)) {
		v.fault(at, "is %q; expected a DNS name or an IP address", value)
	}
}

func (v *validation) uiCertificate(u UICertificate) {
	v.path(u.File, "/uiCertificate/file", true)
	v.path(u.Key, "/uiCertificate/key", true)
	for i, name := range u.Names {
		if _, err := netip.ParseAddr(name); err == nil || len(name) > 253 || !dnsName.MatchString(name) {
			v.fault(fault.Root.Key("uiCertificate").Key("names").Index(i), "is %q; expected a DNS name, because browsers name no address when they connect", name)
		}
	}
	if given := []bool{len(u.Names) > 0, u.File != "", u.Key != ""}; slices.Contains(given, true) && slices.Contains(given, false) {
		v.fault("/uiCertificate", "has not all of names, file and key; expected all three, or none")
	}
}

var (
	replicaID  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)
	etcdPrefix = regexp.MustCompile(`^(/[A-Za-z0-9._-]{1,64}){1,4}$`)
)

func (v *validation) etcd(e Etcd) {
	const at = fault.At("/store/etcd")
	schemes := make(map[string]bool)
	for i, text := range e.Endpoints {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || *u != (url.URL{Scheme: u.Scheme, Host: u.Host}) {
			v.fault(at.Key("endpoints").Index(i), "is %s; expected the URL of a member of etcd with its port and nothing else, such as https://etcd.example:2379", grammar.Show(text))
			continue
		}
		schemes[u.Scheme] = true
	}
	if len(schemes) > 1 {
		v.fault(at.Key("endpoints"), "has some URLs with https and some with http; expected https for all")
	}
	if !etcdPrefix.MatchString(e.Prefix) {
		v.fault(at.Key("prefix"), "is %s; expected 1 to 4 names of letters, digits, and . _ -, each with a / before it, such as /nodehitch", grammar.Show(e.Prefix))
	}
	for _, file := range []struct{ name, path string }{{"ca", e.CA}, {"cert", e.Cert}, {"key", e.Key}, {"passwordFile", e.PasswordFile}} {
		v.path(file.path, at.Key(file.name), true)
		if file.path != "" && file.name != "passwordFile" && schemes["http"] {
			v.fault(at.Key(file.name), "is set, and the endpoints are http, which has no certificates; expected https endpoints")
		}
	}
	if (e.Cert == "") != (e.Key == "") {
		v.fault(at, "has only one of cert and key; expected both, or none")
	}
	if (e.Username == "") != (e.PasswordFile == "") {
		v.fault(at, "has only one of username and passwordFile; expected both, or none")
	}
	if !e.Configured() && e.CA+e.Cert+e.Key+e.Username+e.PasswordFile != "" {
		v.fault(at, "has no endpoints; expected the URLs of etcd's members, or nothing of etcd")
	}
}

// warnings of what can be read on the way to etcd.
func (e Etcd) warnings() (all []string) {
	for _, text := range e.Endpoints {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" {
			continue
		}
		if address, err := netip.ParseAddr(u.Hostname()); err != nil || !address.IsLoopback() {
			all = append(all, "the records go to "+text+" unencrypted, only the secrets in them are sealed: give etcd certificates, and set an https URL")
		}
	}
	return all
}

func (v *validation) url(value string, at fault.At) {
	if _, err := grammar.ControllerURL(value); err != nil {
		v.fault(at, "is %s; %s, such as https://controller.example:8443", grammar.Show(value), err)
	}
}

func (v *validation) path(value string, at fault.At, optional bool) {
	if value == "" && optional {
		return
	}
	if !filepath.IsAbs(value) || filepath.Clean(value) != strings.TrimSuffix(value, "/") {
		v.fault(at, "is %q; expected an absolute path without . and ..", value)
	}
}

func (v *validation) between(value, low, high int64, at fault.At) {
	if value < low || value > high {
		v.fault(at, "is %d; expected %d to %d", value, low, high)
	}
}

func (v *validation) oneOf(value string, at fault.At, allowed ...string) {
	if !slices.Contains(allowed, value) {
		v.fault(at, "is %q; expected %s", value, strings.Join(allowed, " or "))
	}
}
