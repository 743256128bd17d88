package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWriteTouchesNothingThatIsRight(t *testing.T) {
	needsRoot(t, "files of root")
	f := &files{changes: &Changes{}}
	path := filepath.Join(t.TempDir(), "exports.d/nodehitch.exports")
	write := func(content string, mode fs.FileMode, changes int64) {
		t.Helper()
		before := f.changes.Count().Files
		if err := f.Write(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if got := f.changes.Count().Files - before; got != changes {
			t.Errorf("writing %q: %d files were written, want %d", content, got, changes)
		}
		got, err := f.Read(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(got) != content || info.Mode().Perm() != mode {
			t.Errorf("got %q, %v, %v %v", got, info.Mode(), err, statErr)
		}
	}
	write("a", 0o644, 1)
	write("a", 0o644, 0)
	write("b", 0o644, 1)
	write("b", 0o600, 1)
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	write("b", 0o600, 1)
	write("", 0o600, 1)
	// A link is replaced, and what it leads to stays.
	other := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.WriteFile(other, []byte("b"), 0o600), os.Remove(path), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	write("b", 0o600, 1)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v %v", info, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestCopyOfAnySize(t *testing.T) {
	f := &files{changes: &Changes{}}
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "made/to")
	if err := f.Copy(from, to, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	want := strings.Repeat("x", largestFile+1)
	if err := os.WriteFile(from, []byte(want), 0o644); err != nil { //nolint:gosec // the copy has another mode
		t.Fatal(err)
	}
	err := f.Copy(from, to, 0o600)
	got, second := os.ReadFile(to)
	info, third := os.Stat(to)
	if err := errors.Join(err, second, third); err != nil || string(got) != want || info.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes, %v, %v", len(got), info, err)
	}
}

// TestEditKeepsWhatIsTheOwners: Docker's files are often links into a checked-out folder, and
// belong to a group.
func TestEditKeepsWhatIsTheOwners(t *testing.T) {
	needsRoot(t, "files of others")
	f := &files{changes: &Changes{}}
	dir := t.TempDir()
	target, link := filepath.Join(dir, "kept/daemon.json"), filepath.Join(dir, "daemon.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(target), 0o755), os.WriteFile(target, []byte("{}"), 0o600),
		os.Chown(target, 65534, 65533), os.Chmod(target, 0o640), os.Symlink("kept/daemon.json", link)); err != nil {
		t.Fatal(err)
	}
	if err := f.Edit(link, []byte(`{"debug": true}`), 0o640); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	var st unix.Stat_t
	if err := errors.Join(err, unix.Lstat(target, &st)); err != nil || string(got) != `{"debug": true}` || st.Uid != 65534 || st.Gid != 65533 || st.Mode != unix.S_IFREG|0o640 {
		t.Errorf("%q, owner %d:%d, mode %o: %v", got, st.Uid, st.Gid, st.Mode, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "kept/daemon.json" {
		t.Errorf("the link: %q, %v", to, err)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if err := f.Edit(link, []byte("{}"), 0o640); err == nil || !strings.Contains(err.Error(), "leads to kept/daemon.json, which does not exist") {
		t.Errorf("through a link that leads nowhere: %v", err)
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("the file was made")
	}
}

func TestRemove(t *testing.T) {
	f := &files{changes: &Changes{}}
	dir := t.TempDir()
	dropIn := filepath.Join(dir, "x.service.d/nodehitch.conf")
	exports := filepath.Join(dir, "exports.d/nodehitch.exports")
	for _, path := range []string{dropIn, exports} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Remove(path), f.Remove(path)); err != nil {
			t.Error(err)
		}
	}
	if f.changes.Count().Files != 2 {
		t.Errorf("counted %s", f.changes.Count())
	}
	if _, err := os.Stat(filepath.Dir(dropIn)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty drop-in directory is left: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(exports)); err != nil {
		t.Errorf("the directory of exports is the system's: %v", err)
	}
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	f := &files{changes: &Changes{}}
	if _, err := f.Read(t.TempDir()); err == nil {
		t.Error("read a directory")
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(fifo); err == nil {
		t.Error("read a pipe")
	}
}

func TestModeAndEmptyDirectories(t *testing.T) {
	f := &files{changes: &Changes{}}
	dir := filepath.Join(t.TempDir(), "registry.example.com:5000")
	file := filepath.Join(dir, "ca.crt")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, []byte("x"), 0o640)); err != nil {
		t.Fatal(err)
	}
	if mode, err := f.Mode(file); mode != 0o640 || err != nil {
		t.Errorf("mode %o, %v", mode, err)
	}
	if _, err := f.Mode(file + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	if found, err := f.Match(filepath.Join(filepath.Dir(dir), "*", "*.crt")); err != nil || len(found) != 1 || found[0] != file {
		t.Errorf("matching: %q, %v", found, err)
	}
	for _, c := range []struct {
		what, path string
		left       bool
	}{
		{"one with a file", dir, true}, {"a file", file, true}, {"none", dir + "x", false},
	} {
		if err := f.RemoveEmpty(c.path); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := os.Stat(c.path); (err == nil) != c.left {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if n := f.changes.Count(); !n.None() {
		t.Errorf("counted %s", n)
	}
	if err := errors.Join(os.Remove(file), f.RemoveEmpty(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || f.changes.Count().Directories != 1 {
		t.Errorf("%v, counted %s", err, f.changes.Count())
	}
}
