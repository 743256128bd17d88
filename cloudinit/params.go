package cloudinit

import (
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"

	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// Params are what a VM has to know to become a node.
type Params struct {
	// ControllerURLs are https://host[:port] without a path, tried in this order;
	// 1 to 16, no one twice.
	ControllerURLs []string
	// RootPEM is the controller's root CA, one certificate.
	RootPEM []byte
	// Pin is sha256:<hex> of the root's DER; it must be RootPEM's.
	Pin string
	// JoinToken is the instance's, id.secret. It is the only secret.
	JoinToken string
}

const maxURLs = 16

var (
	joinTokenGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}\.[A-Za-z0-9_-]{16,256}$`)
)

// agentConfig is /etc/nodehitch/agent.yaml as a new VM gets it. Its names are
// those of the agent's configuration.
type agentConfig struct {
	ControllerURLs  []string `json:"controllerUrls"`
	RootCertificate string   `json:"rootCertificate"`
	Pin             string   `json:"pin"`
	JoinToken       string   `json:"joinToken"`
}

// Checked is the same with every value in one form. The error says everything that is
// wrong, without the token.
func (p Params) Checked() (Params, error) {
	c, err := p.check()
	if err != nil {
		return Params{}, err
	}
	return Params{ControllerURLs: c.ControllerURLs, RootPEM: []byte(c.RootCertificate), Pin: c.Pin, JoinToken: c.JoinToken}, nil
}

// CheckedTrust is Checked of what names the controller and is no secret. A join token is
// neither checked nor in the result.
func (p Params) CheckedTrust() (Params, error) {
	c, faults := p.checkTrust()
	if err := errors.Join(faults...); err != nil {
		return Params{}, err
	}
	return Params{ControllerURLs: c.ControllerURLs, RootPEM: []byte(c.RootCertificate), Pin: c.Pin}, nil
}

// check brings every value to one form, or says all that is wrong with them.
func (p Params) check() (agentConfig, error) {
	c, faults := p.checkTrust()
	c.JoinToken = p.JoinToken
	if !joinTokenGrammar.MatchString(p.JoinToken) {
		faults = append(faults, errors.New("join token: expected id.secret of letters, digits, - and _ (`hitchctl get join-token` prints it)"))
	}
	return c, errors.Join(faults...)
}

// checkTrust is check of everything but the join token.
func (p Params) checkTrust() (agentConfig, []error) {
	c := agentConfig{Pin: p.Pin}
	var faults []error
	if len(p.ControllerURLs) == 0 || len(p.ControllerURLs) > maxURLs {
		faults = append(faults, fmt.Errorf("controller URLs: found %d, expected 1 to %d", len(p.ControllerURLs), maxURLs))
	}
	seen := map[string]bool{}
	for _, raw := range p.ControllerURLs {
		u, err := grammar.ControllerURL(raw)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("controller URL %q: %w", raw, err))
		case seen[u]:
			faults = append(faults, fmt.Errorf("controller URL %q: given twice", raw))
		}
		seen[u] = true
		c.ControllerURLs = append(c.ControllerURLs, u)
	}
	if p.Pin == "" {
		faults = append(faults, errors.New("pin: expected sha256:<hex> of the root certificate's DER"))
	}
	if root, err := client.ParseRoot(p.RootPEM, p.Pin); err != nil {
		faults = append(faults, err)
	} else {
		c.RootCertificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}))
	}
	return c, faults
}
