package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A program that runs text/template calls methods by their names, so the linker has to
// keep every exported method: a quarter more of the program. Cobra needs it only for
// templates of one's own, such as SetVersionTemplate. The controller writes its status page with
// html/template, which escapes each text for its place.
func TestNoProgramRunsTemplates(t *testing.T) {
	for _, name := range []string{"nodehitch-agent-amd64", "hitchctl"} {
		program, err := os.ReadFile(filepath.Join("..", "..", "bin", name))
		if err != nil {
			t.Fatalf("%v: run `make build`", err)
		}
		if !bytes.Contains(program, []byte("runtime.main")) {
			t.Fatalf("%s has no names of functions: this test would see nothing", name)
		}
		if bytes.Contains(program, []byte("text/template.(*Template).Execute")) {
			t.Errorf("%s runs text/template", name)
		}
	}
}
