package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWrongKeyChangesNothing(t *testing.T) {
	p := newPlace(t)
	shut(t, p.open(t))
	before := read(t, p.file())
	if err := os.WriteFile(p.key(), bytes.Repeat([]byte{7}, KeySize), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(p.options())
	wantError(t, err, p.file(), p.key(), "put the right key there")
	if !bytes.Equal(before, read(t, p.file())) {
		t.Error("the refused store was changed")
	}
}

func TestLostKeyIsNotReplaced(t *testing.T) {
	p := newPlace(t)
	shut(t, p.open(t))
	if err := os.Remove(p.key()); err != nil {
		t.Fatal(err)
	}
	_, err := Open(p.options())
	wantError(t, err, p.key(), "missing", "put it back")
	if _, err := os.Stat(p.key()); err == nil {
		t.Error("a new key was made for a store that is sealed with another")
	}
}

func TestKeySourcesThatAreRefused(t *testing.T) {
	write := func(mode os.FileMode, size int) func(string) {
		return func(path string) {
			if err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte{1}, size), 0o600), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(path string) KeySource { return KeySource{File: path} }
	credential := func(path string) KeySource { return KeySource{Credential: path} }
	for name, c := range map[string]struct {
		prepare func(path string)
		source  func(path string) KeySource
		says    string // "" = accepted
	}{
		"key file":                          {write(0o600, 32), file, ""},
		"read-only key file":                {write(0o400, 32), file, ""},
		"readable by the group":             {write(0o640, 32), file, "chmod 0600"},
		"readable by all":                   {write(0o604, 32), file, "chmod 0600"},
		"too short":                         {write(0o600, 31), file, "31 bytes"},
		"with a newline":                    {write(0o600, 33), file, "33 bytes"},
		"missing, creation not allowed":     {func(string) {}, file, "head -c 32"},
		"credential by an access list":      {write(0o440, 32), credential, ""},
		"credential readable by all":        {write(0o444, 32), credential, "others can read it"},
		"credential that systemd never set": {func(string) {}, credential, "LoadCredential="},
		"both":                              {write(0o600, 32), func(p string) KeySource { return KeySource{File: p, Credential: p} }, "not configured"},
		"none":                              {func(string) {}, func(string) KeySource { return KeySource{} }, "not configured"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "key")
			c.prepare(path)
			s, err := Open(Options{Path: filepath.Join(dir, "state.db"), Key: c.source(path)})
			if c.says != "" {
				wantError(t, err, c.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			shut(t, s)
		})
	}
}
