package pki

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/shared/client/testca"
)

func TestFilesArePrivate(t *testing.T) {
	w := newWorld(t)
	w.pass(intermediateLife/2 + day)
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Errorf("%d files, want the root, two intermediates and the server: %v", len(entries), entries)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %#o", entry.Name(), mode)
		}
	}
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(w *world) error
		says   []string
	}{
		"a root that others can read":       {func(w *world) error { return os.Chmod(filepath.Join(w.dir, rootFile), 0o640) }, []string{rootFile, "chmod 0600"}},
		"a directory that others can write": {func(w *world) error { return os.Chmod(w.dir, 0o777) }, []string{"chmod 0700"}},
		"a lost root":                       {func(w *world) error { return os.Remove(filepath.Join(w.dir, rootFile)) }, []string{rootFile, "restore it"}},
		"a damaged root":                    {func(w *world) error { return os.WriteFile(filepath.Join(w.dir, rootFile), []byte("x"), 0o600) }, []string{rootFile, "damaged"}},
		"a root of another authority": {func(w *world) error {
			return newWorld(w.t).root.write(filepath.Join(w.dir, rootFile))
		}, []string{"not signed by", "restore the directory"}},
		"another's key in the root": {func(w *world) error {
			return (&pair{cert: w.root.cert, key: testca.NewKey()}).write(filepath.Join(w.dir, rootFile))
		}, []string{rootFile, "not its certificate's"}},
		"a server name with a wildcard": {func(w *world) error { w.names = []string{"*.example"}; return nil }, []string{"*.example"}},
		"no server name":                {func(w *world) error { w.names = nil; return nil }, []string{"no name"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := c.damage(w); err != nil {
				t.Fatal(err)
			}
			_, err := w.load()
			wantError(t, err, c.says...)
		})
	}
}

func TestAMissingRootIsNotMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	_, err := Load(Options{Dir: dir, Names: []string{"controller.example"}, RootExists: true})
	wantError(t, err, rootFile+" is missing", "put "+dir+" back")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made (%v)", err)
	}
}
