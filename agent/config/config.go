// Package config reads /etc/nodehitch/agent.yaml: which controller the agent
// belongs to and why it trusts it. What the node is to be comes from there, and
// never from this file.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nodehitch/nodehitch/agent/state"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/durable"
	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
	"github.com/nodehitch/nodehitch/shared/strict"
)

// DefaultFile is where user_data puts the configuration.
const DefaultFile = "/etc/nodehitch/agent.yaml"

// Config is the agent's configuration file.
type Config struct {
	// ControllerURLs are https://host[:port], tried in this order. Required.
	ControllerURLs []string `json:"controllerUrls"`
	// RootCertificate is the controller's root CA, PEM; nothing else is trusted. Required.
	RootCertificate string `json:"rootCertificate"`
	// Pin is sha256:<hex> of the root's DER. Required.
	Pin string `json:"pin"`
	// JoinToken is id.secret, needed until the node is enrolled.
	JoinToken string `json:"joinToken,omitempty"`
	// StateDirectory is where the agent keeps its files; DefaultDirectory when absent.
	StateDirectory string `json:"stateDirectory,omitempty"`
	// Kubeconfig is the absolute path of the one by which a master registers
	// PersistentVolumes; kubeapi.AdminKubeconfig when absent.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// HeatSignalURL is the http(s) URL at which a wait condition of the stack waits for
	// this machine, "" for none. A signed URL lets anyone who knows it signal, so it is a
	// secret.
	HeatSignalURL string `json:"heatSignalUrl,omitempty"`
	// HeatSignalToken is Keystone's for that URL, "" if the URL is a signed one.
	HeatSignalToken string `json:"heatSignalToken,omitempty"`
	// Upgrade says who replaces an agent that no package owns: UpgradeController (when
	// absent), the agent itself by the build that the controller wants, or UpgradeNone.
	Upgrade string `json:"upgrade,omitempty"`
	// Log is how the agent logs, on standard error.
	Log Log `json:"log,omitzero"`
}

// The values of Upgrade.
const (
	UpgradeController = "controller"
	UpgradeNone       = "none"
)

// Log is the shape of the log.
type Log struct {
	// Level is the least that is logged: debug, info (when absent), warn or error.
	Level string `json:"level,omitempty"`
}

var joinTokenGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}\.[A-Za-z0-9_-]{16,256}$`)

// Load reads the file. It must belong to root, because its owner decides which controller
// is trusted, and be readable by no other user, because it contains the join token. Everything that is wrong
// is said at once, as a fault.List within the error, and no value that may have a secret is
// repeated.
func Load(path string) (*Config, error) {
	content, err := read(path)
	if err != nil {
		return nil, err
	}
	c := Config{StateDirectory: state.DefaultDirectory, Upgrade: UpgradeController, Log: Log{Level: "info"}}
	var faults fault.List
	readable, err := strict.UnmarshalKnown(content, &c)
	if err != nil && !errors.As(err, &faults) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if readable {
		for _, f := range c.check() {
			if !faults.AtOrBelow(f.Pointer) { // else what could not be read is not there
				faults = append(faults, f)
			}
		}
	}
	if err := faults.In(path).Err(); err != nil {
		return nil, fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	return &c, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no such file; user_data writes it at the first boot (see /var/log/cloud-init.log), or give another with --config", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if durable.Owner(info) != 0 {
		return nil, fmt.Errorf("%s: does not belong to root, so another user may have changed which controller is trusted: check what is in it, then chown root it", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s: has mode %04o, so others than its owner may use it; it holds the join token: chmod 0600 it", path, mode)
	}
	return io.ReadAll(f)
}

func (c *Config) check() fault.List {
	var faults fault.List
	at := fault.Root.Key("controllerUrls")
	if len(c.ControllerURLs) == 0 {
		faults = append(faults, at.Fault("expected at least one https://host[:port]"))
	}
	for i, raw := range c.ControllerURLs {
		if _, err := grammar.ControllerURL(raw); err != nil {
			faults = append(faults, at.Index(i).Fault(err.Error()))
		}
	}
	faults = append(faults, c.checkTrust()...)
	if c.JoinToken != "" && !joinTokenGrammar.MatchString(c.JoinToken) {
		faults = append(faults, fault.Root.Key("joinToken").Fault("expected id.secret, as `hitchctl get join-token` prints it"))
	}
	if !filepath.IsAbs(c.StateDirectory) {
		faults = append(faults, fault.Root.Key("stateDirectory").Fault(fmt.Sprintf("is %q; expected an absolute path", c.StateDirectory)))
	}
	if c.Kubeconfig != "" {
		if _, err := grammar.AbsolutePath(c.Kubeconfig); err != nil {
			faults = append(faults, fault.Root.Key("kubeconfig").Fault(fmt.Sprintf("is %q; %v", c.Kubeconfig, err)))
		}
	}
	if c.HeatSignalURL != "" && !signalURL(c.HeatSignalURL) {
		faults = append(faults, fault.Root.Key("heatSignalUrl").Fault("expected http(s)://host/path in visible ASCII, as a wait condition's handle of Heat gives it"))
	}
	if c.HeatSignalToken != "" && (c.HeatSignalURL == "" || !visible(c.HeatSignalToken)) {
		faults = append(faults, fault.Root.Key("heatSignalToken").Fault("expected a token in visible ASCII, beside heatSignalUrl"))
	}
	if c.Upgrade != UpgradeController && c.Upgrade != UpgradeNone {
		faults = append(faults, fault.Root.Key("upgrade").Fault(fmt.Sprintf("is %q; expected controller or none", c.Upgrade)))
	}
	if _, err := c.Level(); err != nil {
		faults = append(faults, fault.Root.Key("log").Key("level").Fault(fmt.Sprintf("is %q; expected debug, info, warn or error", c.Log.Level)))
	}
	return faults
}

func (c *Config) checkTrust() fault.List {
	var faults fault.List
	pin := c.Pin
	if pin == "" {
		faults = append(faults, fault.Root.Key("pin").Fault("expected sha256:<hex> of the root certificate's DER"))
	}
	if _, err := client.ParseRoot([]byte(c.RootCertificate), ""); err != nil {
		faults = append(faults, fault.Root.Key("rootCertificate").Fault(err.Error()))
	} else if _, err := client.ParseRoot([]byte(c.RootCertificate), pin); err != nil {
		faults = append(faults, fault.Root.Key("pin").Fault(err.Error()))
	}
	return faults
}

// Level is Log.Level for slog.
func (c *Config) Level() (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(c.Log.Level))
	return level, err
}

// signalURL has a host, no user, and nothing that a header or a log line could end at.
func signalURL(raw string) bool {
	if !visible(raw) {
		return false
	}
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Fragment == ""
}

// visible is what fits into a header and needs no quoting there.
func visible(text string) bool {
	const longest = 8192
	return len(text) <= longest && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}
