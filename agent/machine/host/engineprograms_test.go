package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestContainerdVersion(t *testing.T) {
	for line, want := range map[string]string{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n":                    "1.6.20",
		"containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n":                       "1.7.27",
		"containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376\n": "2.1.4",
		"containerd github.com/containerd/containerd/v2 2.0\n":                                             "2.0",
		"ctr github.com/containerd/containerd 1.6.20\n":                                                    "",
		"containerd\n": "",
	} {
		found := containerdVersion.FindStringSubmatch(line)
		if got := slices.Concat(found, []string{"", ""})[min(1, len(found))]; got != want {
			t.Errorf("of %q: %q, want %q", line, got, want)
		}
	}
}

func TestSplitCommandLine(t *testing.T) {
	for content, want := range map[string][]string{
		"":                                     nil,
		"/usr/bin/dockerd\x00-H\x00fd://\x00":  {"/usr/bin/dockerd", "-H", "fd://"},
		"/usr/bin/dockerd\x00--label=\x00\x00": {"/usr/bin/dockerd", "--label=", ""},
	} {
		if got := splitCommandLine([]byte(content)); !slices.Equal(got, want) {
			t.Errorf("of %q: %q, want %q", content, got, want)
		}
	}
}

// TestContainerdConfig uses the installed containerd.
func TestContainerdConfig(t *testing.T) {
	r, _ := runner(t)
	p := &enginePrograms{run: r}
	dir := t.TempDir()
	path, dropIn := filepath.Join(dir, "config.toml"), filepath.Join(dir, "conf.d/a.toml")
	main := "imports = ['" + dropIn + "']\nversion = 2\n"
	if err := errors.Join(os.Mkdir(filepath.Dir(dropIn), 0o700), os.WriteFile(path, []byte(main), 0o600), os.WriteFile(dropIn, []byte("version = 2\noom_score = -7\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for content, wanted := range map[string]string{"": "oom_score = -7", "oom_score = -8\n": "oom_score = -8", "a = \n": ""} {
		var instead []byte
		if content != "" {
			instead = []byte(content)
		}
		dump, err := p.ContainerdConfig(t.Context(), path, instead)
		if (err != nil) != (wanted == "") || !strings.Contains(string(dump), wanted) {
			t.Errorf("with %q: %v\n%s", content, err, dump)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".nodehitch-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if _, err := p.ContainerdConfig(t.Context(), filepath.Join(dir, "none/config.toml"), []byte{}); err != nil {
		t.Errorf("a file that does not exist, in a directory that does not: %v", err)
	}
	if !r.Changes.Count().None() {
		t.Errorf("counted %s", r.Changes.Count())
	}
}

// TestContainerdIsAskedAgain uses the installed containerd, which is before 2.2.
func TestContainerdIsAskedAgain(t *testing.T) {
	r, _ := runner(t)
	p := &enginePrograms{run: r}
	for range 2 {
		if said, err := p.ContainerdVersion(t.Context()); err != nil || said == "" || r.Changes.Count().Reads != 1 {
			t.Fatalf("the version is %q, %v; %s", said, err, r.Changes.Count())
		}
	}
	dir := t.TempDir()
	path, dropIn := filepath.Join(dir, "config.toml"), filepath.Join(dir, "a.toml")
	for _, c := range []struct {
		what, file, content, wanted string
		asked                       int64
	}{
		{"a file that imports nothing", path, "version = 2\noom_score = -1\n", "oom_score = -1", 1},
		{"the same file", path, "version = 2\noom_score = -1\n", "oom_score = -1", 0},
		{"another content", path, "version = 2\noom_score = -2\n", "oom_score = -2", 1},
		{"imports without a file", path, "version = 2\nimports = ['" + dir + "/a*.toml']\n", "oom_score = 0", 1},
		{"a file that it imports", dropIn, "version = 2\noom_score = -3\n", "oom_score = -3", 1},
		{"another content of that", dropIn, "version = 2\noom_score = -4\n", "oom_score = -4", 1},
	} {
		if err := os.WriteFile(c.file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		before := r.Changes.Count().Reads
		dump, err := p.ContainerdConfig(t.Context(), path, nil)
		if asked := r.Changes.Count().Reads - before; err != nil || !strings.Contains(string(dump), c.wanted) || asked != c.asked {
			t.Errorf("%s: asked %d times, want %d; %v\n%s", c.what, asked, c.asked, err, dump)
		}
	}
}

func TestImportsNothing(t *testing.T) {
	const path = "/etc/containerd/config.toml"
	for _, c := range []struct {
		content, printed string
		want             bool
	}{
		{"version = 2\n", `imports = ["` + path + `"]`, true},
		{"version = 3\n", "imports = []", true},
		{"imports = []\nversion = 2\n", "imports = []", true},
		{"version = 2\n", `imports = ["` + path + `", "/etc/containerd/a.toml"]`, false},
		{"version = 3\n", "imports = ['/etc/containerd/conf.d/*.toml']", false},
		{"imports = ['/etc/containerd/conf.d/*.toml']\n", `imports = ["` + path + `"]`, false},
		{"IMPORTS = ['/etc/containerd/conf.d/*.toml']\n", `imports = ["` + path + `"]`, false},
		{`"\u0069mports" = ['/etc/containerd/conf.d/*.toml']`, `imports = ["` + path + `"]`, false},
		{"version = 2\n", "", false},
	} {
		if got := importsNothing(path, []byte(c.content), "version = 2\n"+c.printed+"\n[plugins]\n  imports = []\n"); got != c.want {
			t.Errorf("of %q, printed as %q: %t, want %t", c.content, c.printed, got, c.want)
		}
	}
}

// TestValidateDocker uses the installed dockerd, if there is one; before 23.0 it cannot
// validate.
func TestValidateDocker(t *testing.T) {
	r, _ := runner(t)
	p := &enginePrograms{run: r}
	if err := p.ValidateDocker(t.Context(), []byte(`{"insecure-registries": ["10.0.0.7:5000"]}`)); err != nil {
		t.Errorf("of a good file: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "nodehitch-daemon-*.json"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if !r.Changes.Count().None() {
		t.Errorf("counted %s", r.Changes.Count())
	}
	if said, err := r.Run(t.Context(), Command{Argv: []string{"dockerd", "--help"}, Reads: true}); err != nil || !strings.Contains(said.Stdout, "--validate") {
		return // it accepts everything
	}
	if err := p.ValidateDocker(t.Context(), []byte(`{"no-such-setting": 1}`)); err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("of a bad file: %v", err)
	}
}
