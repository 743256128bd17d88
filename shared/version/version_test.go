package version_test

import (
	"bytes"
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
		if got, err := version.Of(bytes.NewReader(content)); got != c.inFile || err != nil {
			t.Errorf("its file says %q, %v; want %q", got, err, c.inFile)
		}
	}
}

func TestAFileThatIsNoProgramHasNoVersion(t *testing.T) {
	for _, content := range []string{"", "nodehitch-version<>", "nodehitch-version<a b>", "nodehitch-version<" + strings.Repeat("v", 65) + ">"} {
		if got, err := version.Of(strings.NewReader(content)); got != "" || err != nil {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
}

func TestAVersionIsFoundWhereverItStands(t *testing.T) {
	const stamp = "nodehitch-version<v1.2.3>"
	for before := 64<<10 - 2*len(stamp); before < 64<<10+len(stamp); before++ {
		if got, err := version.Of(strings.NewReader(strings.Repeat("x", before) + stamp + strings.Repeat("y", 1<<17))); got != "v1.2.3" || err != nil {
			t.Fatalf("after %d bytes: %q, %v", before, got, err)
		}
	}
}
