package version_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/version"
)

// The linker's version is what the program says, and what can be read out of its file.
func TestAProgramShowsItsVersionWithoutBeingRun(t *testing.T) {
	const want = "v1.2.3-rc.1+deb"
	dir := t.TempDir()
	source := `package main

import "github.com/nodehitch/nodehitch/shared/version"

func main() { print(version.Version) }
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	for _, c := range []struct{ ldflags, want, inFile string }{
		{"-s -w -X github.com/nodehitch/nodehitch/shared/version.stamp=nodehitch-version<" + want + ">", want, want},
		{"-s -w", "devel", ""},
	} {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", c.ldflags, "-o", program, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		said, err := exec.CommandContext(t.Context(), program).CombinedOutput()
		if err != nil || string(said) != c.want {
			t.Errorf("it says %q, %v; want %q", said, err, c.want)
		}
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if got := version.Of(content); got != c.inFile {
			t.Errorf("its file says %q, want %q", got, c.inFile)
		}
	}
}

func TestAFileThatIsNoProgramHasNoVersion(t *testing.T) {
	for _, content := range []string{"", "nodehitch-version<>", "nodehitch-version<a b>", "nodehitch-version<" + strings.Repeat("v", 65) + ">"} {
		if got := version.Of([]byte(content)); got != "" {
			t.Errorf("%q: %q", content, got)
		}
	}
}
