package host

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func onDisk(t *testing.T) (*directories, string) {
	needsRoot(t, "immutable directories")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &directories{changes: &Changes{}, log: slog.New(slog.DiscardHandler), unguardable: map[string]bool{}}, dir
}

func TestGuard(t *testing.T) {
	d, dir := onDisk(t)
	path := filepath.Join(dir, "a/volume")
	t.Cleanup(func() { _ = d.Unguard(path, 0o755, true) })
	if err := errors.Join(d.Guard(path), d.Guard(path)); err != nil {
		t.Fatal(err)
	}
	found, err := d.Inspect(path)
	if err != nil || !found.Guarded || found.Entry != "" || found.Real != path || found.Mode != 0 {
		t.Fatalf("got %+v, %v", found, err)
	}
	if d.isUnguardable(path) {
		t.Log("this filesystem has no immutable directories")
	} else if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); err == nil {
		t.Error("root can write under the guard")
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, ""); err != nil {
		t.Errorf("nothing can be mounted on the guard: %v", err)
	} else if err := errors.Join(os.WriteFile(filepath.Join(path, "x"), nil, 0o600), unix.Unmount(path, 0)); err != nil {
		t.Errorf("what is mounted on it is not as usual: %v", err)
	}
	if err := d.Unguard(path, 0o750, false); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v %v", info, err)
	}
	if err := errors.Join(d.Guard(path), d.Unguard(path, 0o755, true), d.Unguard(path, 0o755, true)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mount point is left: %v", err)
	}
}

func TestInspect(t *testing.T) {
	d, dir := onDisk(t)
	err := errors.Join(
		os.Mkdir(filepath.Join(dir, "empty"), 0o755),
		os.Mkdir(filepath.Join(dir, "full"), 0o755),
		os.WriteFile(filepath.Join(dir, "full/photo.jpg"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.Symlink("full", filepath.Join(dir, "link")),
	)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]Directory{
		"none/at/all": {Real: "none/at/all"},
		"empty":       {Exists: true, Real: "empty", Mode: 0o755},
		"full":        {Exists: true, Real: "full", Mode: 0o755, Entry: "photo.jpg"},
		"file":        {Exists: true, Real: "file", NotDirectory: "a file"},
		"link":        {Exists: true, Real: "full", NotDirectory: "a symbolic link"},
		"link/volume": {Real: "full/volume"},
		"file/volume": {Exists: true, Real: "file/volume", NotDirectory: "a path below a file"},
	}
	for path, want := range cases {
		want.Real = filepath.Join(dir, want.Real)
		if got, err := d.Inspect(filepath.Join(dir, path)); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", path, got, err, want)
		}
	}
}

func TestInside(t *testing.T) {
	d, root := onDisk(t)
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	device := number(st.Dev)
	nobody := Shared{Exists: true, UID: 65534, GID: 65534, Mode: 0o755}
	if found, err := d.InspectInside(root, device, "nfs/pv1"); err != nil || found.Exists {
		t.Errorf("got %+v, %v", found, err)
	}
	if err := d.MakeInside(root, device, "nfs/pv1", nobody); err != nil {
		t.Fatal(err)
	}
	if found, err := d.InspectInside(root, device, "nfs/pv1"); err != nil || found != nobody {
		t.Errorf("got %+v, %v", found, err)
	}
	if found, err := d.InspectInside(root, device, "nfs"); err != nil || found.UID != 0 || found.Mode != 0o755 {
		t.Errorf("the directory above: %+v, %v", found, err)
	}
	if _, err := d.InspectInside(root, Number{1, 2}, "nfs/pv1"); err == nil {
		t.Error("inspected the filesystem of another device")
	}
	if err := d.MakeInside(root, Number{1, 2}, "other", nobody); err == nil {
		t.Error("made a directory in the filesystem of another device")
	}
	own := Shared{Exists: true, Mode: 0o700}
	if err := d.MakeInside(root, device, "registry", own); err != nil {
		t.Error(err)
	}
	if found, err := d.InspectInside(root, device, "registry"); err != nil || found != own {
		t.Errorf("one that was made: got %+v, %v; want no more rights than asked for", found, err)
	}
	if err := d.MakeInside(root, device, ".", nobody); err != nil {
		t.Error(err)
	}
}

// Whoever can write to a directory above the private one can replace it.
func TestPrivate(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		uid  int
		mode uint32
		want string
	}{
		"nothing there":            {".nodehitch/other", 0, 0o700, ""},
		"readable":                 {".nodehitch/record", 0, 0o755, ""},
		"writable for all":         {".nodehitch/record", 0, 0o777, "record"},
		"writable for a group":     {".nodehitch/record", 0, 0o770, "record"},
		"of a client":              {".nodehitch/record", 65534, 0o755, "record"},
		"below that of a client":   {".nodehitch", 65534, 0o700, ".nodehitch"},
		"below one open to all":    {".nodehitch", 0, 0o1777, ".nodehitch"},
		"on a volume of a client":  {".", 65534, 0o755, "chown"},
		"on a volume open to all":  {".", 0, 0o777, "chmod"},
		"on a volume for one only": {".", 0, 0o700, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, root := onDisk(t)
			path := filepath.Join(root, c.path)
			var st unix.Stat_t
			err := errors.Join(os.Chmod(root, 0o755), os.MkdirAll(path, 0o755), os.Chown(path, c.uid, 0), unix.Chmod(path, c.mode), unix.Stat(root, &st))
			if err != nil {
				t.Fatal(err)
			}
			err = d.MakePrivate(root, number(st.Dev), ".nodehitch/record")
			var refused *PathError
			if c.want != "" {
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v, expected a refusal that says %q", err, c.want)
				}
				return
			}
			info, second := os.Stat(filepath.Join(root, ".nodehitch/record"))
			if err := errors.Join(err, second); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("made %v, %v", info, err)
			}
		})
	}
}

func TestInsideFollowsNothing(t *testing.T) {
	d, root := onDisk(t)
	outside := t.TempDir()
	mounted := filepath.Join(root, "mounted")
	err := errors.Join(
		os.Symlink(outside, filepath.Join(root, "absolute")),
		os.Symlink("../../../../etc", filepath.Join(root, "relative")),
		os.Symlink("plain", filepath.Join(root, "within")),
		os.Mkdir(filepath.Join(root, "plain"), 0o755),
		os.WriteFile(filepath.Join(root, "file"), nil, 0o600),
		os.Mkdir(mounted, 0o755),
		unix.Mount("tmpfs", mounted, "tmpfs", 0, ""),
	)
	t.Cleanup(func() { _ = unix.Unmount(mounted, 0) })
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	for _, rel := range []string{"absolute", "absolute/x", "relative", "relative/x", "within", "within/x", "file", "file/x", "mounted", "mounted/x"} {
		var refused *PathError
		if _, err := d.InspectInside(root, number(st.Dev), rel); !errors.As(err, &refused) {
			t.Errorf("%s: inspected: %v", rel, err)
		}
		if err := d.MakeInside(root, number(st.Dev), rel, Shared{UID: 65534, GID: 65534, Mode: 0o777}); !errors.As(err, &refused) {
			t.Errorf("%s: made: %v", rel, err)
		}
		if err := d.MakePrivate(root, number(st.Dev), rel); !errors.As(err, &refused) {
			t.Errorf("%s: made private: %v", rel, err)
		}
	}
	above, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer above.Close()
	for _, name := range []string{"absolute", "relative", "within", "file", "mounted", ".."} {
		if fd, err := stepWithoutOpenat2(above, name, unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW); err == nil {
			t.Errorf("without openat2, %s is entered", name)
			_ = unix.Close(fd)
		}
	}
	if fd, err := stepWithoutOpenat2(above, "plain", unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW); err != nil || unix.Close(fd) != nil {
		t.Errorf("without openat2, a plain directory is not entered: %v", err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("made something outside: %v", entries)
	}
}
