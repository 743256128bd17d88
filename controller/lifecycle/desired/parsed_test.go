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
	twice := func(text string) (first, second Parameters) {
		sealed, err := s.Seal([]byte(text))
		if err == nil {
			first, err = readParameters(s, sealed)
		}
		if err == nil {
			second, err = readParameters(s, sealed)
		}
		if err != nil {
			t.Fatal(err)
		}
		if string(first.Raw) != text || first.Params == nil || string(second.Raw) != text {
			t.Fatalf("read %+v and %+v of %s", first, second, text)
		}
		return first, second
	}
	a, again := twice(registry + "}}")
	if a.Params != again.Params {
		t.Error("the same parameters were parsed twice")
	}
	if b, _ := twice(registry + "}}"); b.Params == a.Params { // sealed anew
		t.Error("two sealed texts share what was parsed")
	}
	long, again := twice(registry + `}, "` + strings.Repeat("x", longestKept) + `": 1}`)
	if long.Params == again.Params {
		t.Error("parameters without bound are kept in memory")
	}
	put := Parse([]byte(registry + "}}"))
	sealed, err := put.Reseal(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := readParameters(s, sealed); err != nil || now.Params != put.Params {
		t.Errorf("the parameters of a PUT were parsed again, %v", err)
	}
	other := Parse([]byte(" " + registry + "}}"))
	if same, err := other.Reseal(s, sealed); err != nil || string(same) != string(sealed) {
		t.Errorf("what means the same was sealed anew, %v", err)
	}
	if now, err := readParameters(s, sealed); err != nil || string(now.Raw) != string(put.Raw) {
		t.Errorf("the text in force is %s, %v; want it as it was sent first", now.Raw, err)
	}
}
