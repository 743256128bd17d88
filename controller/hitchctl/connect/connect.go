// Package connect finds the controller that a command talks to, what proves that
// it is the right one, and the token: from flags, the environment, the context
// file, or, for root on the controller's own machine, its unix socket.
package connect

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nodehitch/nodehitch/controller/hitchctl/failover"
	"github.com/nodehitch/nodehitch/shared/client"
)

const unixScheme = "unix://"

// Flags are what the command line says; "" is not given.
type Flags struct {
	Server            []string
	CAFile, TokenFile string
	// Context is the name of a context of the file.
	Context string
}

// Target is a controller and how to be admitted there.
type Target struct {
	// Server is where the controller is, or each of several.
	Server Servers
	CA     []byte
	// CAFrom is where the root certificate was found: a variable, a flag or a file.
	CAFrom string
	// CAInstead is where the one is that would count without NODEHITCH_CA, "" for none.
	CAInstead string
	Pin       string
	Token     string
	// TokenFrom is where the token was found: a variable or a file.
	TokenFrom string
	// TokenInstead is the file whose token would count without NODEHITCH_TOKEN, "" for none.
	TokenInstead string
}

// Find puts the target together: a flag wins over the environment
// (NODEHITCH_SERVER, NODEHITCH_CA, NODEHITCH_TOKEN), that over the context in use. A context
// that a flag names wins over the environment as well. If none of them names a server and root
// asks, it is the socket of this machine's controller. There is no token in argv, which
// everyone can read.
func Find(flags Flags, getenv func(string) string) (Target, error) {
	file, err := Open(getenv)
	if err != nil {
		return Target{}, err
	}
	var t Target
	name := cmp.Or(flags.Context, file.Current())
	if name != "" {
		c, err := file.Get(flags.Context)
		if err != nil {
			return Target{}, err
		}
		if t, err = c.target(file.path, file.mode); err != nil {
			return Target{}, err
		}
	}
	if flags.Context == "" {
		if err := t.fromEnvironment(getenv); err != nil {
			return Target{}, err
		}
	}
	if err := t.fromFlags(flags); err != nil {
		return Target{}, err
	}
	switch {
	case t.Server != "":
		return t, nil
	case name == "" && len(file.Names()) > 0:
		_, err := file.Get("")
		return Target{}, err
	}
	return ownMachine()
}

func (t *Target) fromEnvironment(getenv func(string) string) error {
	given := Servers(getenv("NODEHITCH_SERVER"))
	t.Server = cmp.Or(given, t.Server)
	if err := given.Check("NODEHITCH_SERVER"); err != nil {
		return err
	}
	if token := getenv("NODEHITCH_TOKEN"); token != "" {
		if err := checkToken(token); err != nil {
			return fmt.Errorf("NODEHITCH_TOKEN: %w", err)
		}
		t.Token, t.TokenFrom, t.TokenInstead = token, "NODEHITCH_TOKEN", t.TokenFrom
	}
	ca, instead := getenv("NODEHITCH_CA"), t.CAFrom
	switch {
	case ca == "":
		return nil
	case strings.Contains(ca, "-----BEGIN"):
		t.setCA([]byte(ca), "NODEHITCH_CA", instead)
		return nil
	}
	return t.readCA(ca, "NODEHITCH_CA", instead)
}

func (t *Target) fromFlags(flags Flags) error {
	given := Join(flags.Server)
	if err := given.Check("--server"); err != nil {
		return err
	}
	t.Server = cmp.Or(given, t.Server)
	if flags.CAFile != "" {
		if err := t.readCA(flags.CAFile, "--ca", ""); err != nil {
			return err
		}
	}
	if flags.TokenFile == "" {
		return nil
	}
	token, err := readToken(flags.TokenFile)
	t.Token, t.TokenFrom, t.TokenInstead = token, flags.TokenFile, ""
	return err
}

func (t *Target) readCA(path, from, instead string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: reading the controller's root certificate: %w", from, err)
	}
	t.setCA(pem, from, instead)
	return nil
}

// setCA sets a root certificate that the context's pin is not of.
func (t *Target) setCA(pem []byte, from, instead string) {
	t.CA, t.CAFrom, t.CAInstead, t.Pin = pem, from, instead, ""
}

// ownMachine is the controller's socket, for users that may open it.
func ownMachine() (Target, error) {
	none := errors.New("no controller is set; give --server with --ca and --token-file, set NODEHITCH_SERVER, " +
		"NODEHITCH_CA and NODEHITCH_TOKEN, or write ~/.config/nodehitch/hitchctl.yaml (`hitchctl create token NAME --write-context FILE`, " +
		"as root on the controller's machine, makes one)")
	if os.Geteuid() != 0 {
		return Target{}, none
	}
	if _, err := os.Stat(client.DefaultSocket); err != nil {
		return Target{}, fmt.Errorf("%w; and there is no socket %s of a controller on this machine", none, client.DefaultSocket)
	}
	return Target{Server: unixScheme + client.DefaultSocket}, nil
}

// Client is a client for the target. Its requests have no time limit of their own. say gets a
// line about each controller that does not answer as expected, and about a wait for a leader.
func (t Target) Client(say func(string)) (*client.Controller, error) {
	urls := t.Server.List()
	o := client.Options{BaseURL: urls[0], Pin: t.Pin, Token: t.Token}
	path, socket := strings.CutPrefix(urls[0], unixScheme)
	if socket {
		o.UnixSocket, urls = path, nil
	}
	var err error
	if o.Over, err = failover.Over(urls, say); err != nil {
		return nil, err
	}
	if socket {
		return client.New(o)
	}
	if len(t.CA) == 0 && strings.HasPrefix(urls[0], "https://") {
		return nil, fmt.Errorf("no root certificate for %s is set, and the system's root certificates are not used: give --ca or NODEHITCH_CA, "+
			"or ca in ~/.config/nodehitch/hitchctl.yaml", t.Server)
	}
	if o.RootPEM, _, err = root(t.CA); err != nil {
		return nil, err
	}
	return client.New(o)
}

// HoldsPrivateKey says that what was given as the controller's root has a private key in it.
func (t Target) HoldsPrivateKey() bool {
	_, withKey, _ := root(t.CA)
	return withKey
}
