package openapi

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// program is the folder client/, copied to where its packages are installed.
type program struct {
	t   *testing.T
	dir string
}

// install installs the packages of client/package-lock.json. Without Node.js, npm or its registry
// the test is skipped, or fails if NODEHITCH_LAB=required.
func install(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir()}
	if err := os.CopyFS(p.dir, os.DirFS("client")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			refuse(t, "%v: install Node.js 18 or later, with npm", err)
		}
	}
	cache := filepath.Join(cmp.Or(os.Getenv("NODEHITCH_CACHE"), image.DefaultCache), "npm")
	out, err := p.command("npm", "ci", "--cache", cache, "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund").CombinedOutput()
	if err == nil {
		return p
	}
	if ping, pingErr := p.command("npm", "ping").CombinedOutput(); pingErr != nil {
		refuse(t, "the npm registry does not answer: %v\n%s", pingErr, ping)
	}
	t.Fatalf("npm ci: %v\n%s", err, out)
	return nil
}

// refuse ends the test where this machine cannot run it.
func refuse(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("NODEHITCH_LAB") == "required" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
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
