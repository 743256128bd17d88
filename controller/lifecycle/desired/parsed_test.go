package desired

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/storetest"
)

const registry = `{"private_registry_installation_param": {"ssh_cp_name": "CP1"`

func TestParametersAreParsedOnce(t *testing.T) {
	dir := t.TempDir()
	s, err := storetest.Open(t, store.Options{Path: filepath.Join(dir, "store.db"), Key: store.KeySource{File: filepath.Join(dir, "seal.key"), Create: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	twice := func(text string) (first, second parsed) {
		sealed, err := s.Seal([]byte(text))
		if err == nil {
			first, err = readParams(s, sealed)
		}
		if err == nil {
			second, err = readParams(s, sealed)
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(first.raw) != text || first.params == nil || string(second.raw) != text {
			t.Fatalf("read %+v and %+v of %s", first, second, text)
		}
		return first, second
	}
	a, again := twice(registry + "}}")
	if a.params != again.params {
		t.Error("the same parameters were parsed twice")
	}
	if b, _ := twice(registry + "}}"); b.params == a.params { // sealed anew
		t.Error("two sealed texts share what was parsed")
	}
	long, again := twice(registry + `}, "` + strings.Repeat("x", longestKept) + `": 1}`)
	if long.params == again.params {
		t.Error("parameters without bound are kept in memory")
	}
}
