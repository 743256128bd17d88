package hot

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
)

// nodeParameters are those parameters of every template that make its servers nodes.
type nodeParameters struct {
	ControllerURLs  []string `json:"nodehitch_controller_urls"`
	RootCertificate string   `json:"nodehitch_root_certificate"`
	// CertificateLines are only for Tacker, whose UserData fills what the base HOT has: one of
	// the v2 API, or an old one of the v1 API, has RootCertificate.
	CertificateLines []string `json:"nodehitch_root_certificate_lines,omitempty"`
	Pin              string   `json:"nodehitch_pin"`
	JoinToken        string   `json:"nodehitch_join_token"`
}

const environmentHead = `# What makes the servers of a stack nodes of one VNF instance: for
# openstack stack create -e. It holds the instance's join token; keep it as a secret.
`

func check(p cloudinit.Params) (nodeParameters, error) {
	p, err := p.Checked()
	if err != nil {
		return nodeParameters{}, fmt.Errorf("rendering the parameters: %w", err)
	}
	return nodeParameters{ControllerURLs: p.ControllerURLs, RootCertificate: string(p.RootPEM), Pin: p.Pin, JoinToken: p.JoinToken}, nil
}

// Environment is an environment file for Heat with the parameters that make servers
// nodes. The same parameters give the same bytes. The error says everything that is
// wrong with them, without the token.
func Environment(p cloudinit.Params) ([]byte, error) {
	values, err := check(p)
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(map[string]any{"parameters": values})
	if err != nil {
		return nil, fmt.Errorf("rendering the parameters: %w", err)
	}
	return append([]byte(environmentHead), text...), nil
}

// AdditionalParams are the same parameters as JSON, members of Tacker's
// additionalParams, from which its UserData takes what a base HOT has as parameters.
func AdditionalParams(p cloudinit.Params) ([]byte, error) {
	values, err := check(p)
	if err != nil {
		return nil, err
	}
	values.CertificateLines = lines(values.RootCertificate)
	text, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering the parameters: %w", err)
	}
	return append(text, '\n'), nil
}

// lines are those of a text that ends with a line break, without it.
func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
