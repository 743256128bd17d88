package openapi

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/npm"
)

// program is the folder client/, copied to where its packages are installed.
type program struct {
	t   *testing.T
	dir string
}

// install installs the packages of client/package-lock.json.
func install(t *testing.T) *program {
	t.Helper()
	return &program{t: t, dir: npm.Install(t, "client")}
}

func (p *program) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), name, args...)
	cmd.Dir = p.dir
	return cmd
}

// node runs a program of the folder with this standard input, and returns what it printed.
func (p *program) node(stdin []byte, args ...string) []byte {
	p.t.Helper()
	cmd := p.command("node", args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("node %v: %v\n%s%s", args, err, out, &stderr)
	}
	return out
}

func (p *program) write(name string, content []byte) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), content, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// keyPEM is a private key as TLS in Node.js takes it.
func keyPEM(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
