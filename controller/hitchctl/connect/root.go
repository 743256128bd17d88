package connect

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// root is the certificate in what was given as the controller's root. The controller's own
// file, pki/root.pem, has its private key before it: withKey says so.
func root(given []byte) (certificate []byte, withKey bool, err error) {
	var found []string
	blocks, err := pemtext.Blocks(given)
	if err != nil {
		return nil, false, fmt.Errorf("root certificate: %w", err)
	}
	for _, block := range blocks {
		found = append(found, block.Type)
		if block.Type == "CERTIFICATE" {
			certificate = append(certificate, pem.EncodeToMemory(block)...)
		}
		withKey = withKey || strings.HasSuffix(block.Type, "PRIVATE KEY")
	}
	if certificate != nil {
		return certificate, withKey, nil
	}
	what := "no PEM block"
	switch {
	case len(bytes.TrimSpace(given)) == 0:
		what = "nothing"
	case found != nil:
		what = strings.Join(found, ", ")
	}
	return nil, withKey, fmt.Errorf("root certificate: found %s, expected CERTIFICATE; "+
		"`hitchctl create token NAME --write-context FILE`, as root on the controller's machine, writes it into a context file", what)
}
