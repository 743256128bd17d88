package release

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/e2e/results"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The golden file has every file of every package: with its mode and owner, and whether it
// is a conffile. For manual pages it has one line.
func TestContents(t *testing.T) {
	c := results.Begin(t, suite, "contents", "each package has its files, with modes and owners; controller.yaml is the only conffile")
	r := built(t)
	var lines []string
	for _, deb := range r.packages(t, "deb") {
		lines = append(lines, debFiles(t, deb)...)
	}
	for _, rpm := range r.packages(t, "rpm") {
		lines = append(lines, rpmFiles(t, rpm)...)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/contents.txt"
	if *update {
		if !r.complete() {
			t.Fatal("only some packages are in dist/: run `make package`")
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for line := range strings.Lines(string(text)) {
		if r.complete() || !strings.Contains(line, "arm64") {
			want.WriteString(line)
		}
	}
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("%s is not what the packages have, run `make package && go test ./e2e/release -run TestContents -update` (-file +packages):\n%s", golden, diff)
	}
	c.Figure("files", "%d", len(lines))
}

var (
	manualPage = regexp.MustCompile(`/usr/share/man/man1/[a-z-]+\.1\.gz`)
	distInfo   = regexp.MustCompile(`/nodehitch_tacker-[^/]+\.dist-info`)
)

func line(format, pkg, mode, owner, path string, conffile bool) string {
	path = manualPage.ReplaceAllString(path, "/usr/share/man/man1/*.1.gz")
	path = distInfo.ReplaceAllString(path, "/nodehitch_tacker-VERSION.dist-info")
	text := fmt.Sprintf("%s %s %s %s %s", format, pkg, mode, owner, path)
	if conffile {
		text += " conffile"
	}
	return text
}

// debFiles are the files of a deb, without folders that others have too.
func debFiles(t *testing.T, deb string) (lines []string) {
	t.Helper()
	name := strings.TrimSpace(run(t, "dpkg-deb", "--field", deb, "Package"))
	conffiles := ""
	if strings.Contains(run(t, "dpkg-deb", "--ctrl-tarfile", deb), "./conffiles") {
		conffiles = run(t, "dpkg-deb", "--info", deb, "conffiles")
	}
	eachFile(t, deb, func(h *tar.Header, _ io.Reader) {
		path := strings.TrimSuffix(strings.TrimPrefix(h.Name, "."), "/")
		if h.Typeflag == tar.TypeDir && path != "/etc/nodehitch" {
			return
		}
		mode := h.FileInfo().Mode().String()
		lines = append(lines, line("deb", name, mode, fmt.Sprintf("%d:%d", h.Uid, h.Gid), path, slices.Contains(strings.Fields(conffiles), path)))
	})
	return lines
}

func rpmFiles(t *testing.T, rpm string) (lines []string) {
	t.Helper()
	name := run(t, "rpm", "-qp", "--queryformat", "%{NAME}", rpm)
	for entry := range strings.Lines(run(t, "rpm", "-qp", "--queryformat", `[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES} %{FILEFLAGS:fflags}\n]`, rpm)) {
		f := strings.Fields(entry)
		lines = append(lines, line("rpm", name, f[0], f[1], f[2], len(f) > 3 && f[3] == "cn"))
	}
	return lines
}

// What package managers and people read first.
func TestControl(t *testing.T) {
	results.Begin(t, suite, "control", "packages and changelogs are of the version, and a controller's package recommends what it needs")
	r := built(t)
	for _, deb := range r.packages(t, "deb") {
		fields := strings.Split(strings.TrimSpace(run(t, "dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Depends} ${Recommends}", deb)), " ")
		if fields[1] != r.version+"-1" {
			t.Errorf("%s has the version %s", filepath.Base(deb), fields[1])
		}
		changelog := gunzip(t, file(t, deb, "/usr/share/doc/"+fields[0]+"/changelog.Debian.gz"))
		if !strings.HasPrefix(changelog, fields[0]+" ("+r.version+"-1) ") {
			t.Errorf("%s: its changelog begins with %q", filepath.Base(deb), changelog[:min(60, len(changelog))])
		}
		if fields[0] == "nodehitch-controller" && strings.Join(fields[2:], " ") != "systemd hitchctl, nodehitch-agents" {
			t.Errorf("the controller depends on and recommends %q", fields[2:])
		}
	}
	agent := file(t, r.deb("nodehitch-agent", "amd64"), "/usr/bin/nodehitch-agent")
	if served := file(t, r.deb("nodehitch-agents", "all"), "/usr/lib/nodehitch/agents/nodehitch-agent-amd64"); !bytes.Equal(served, agent) {
		t.Error("a controller serves another agent than the package has")
	}
}

func TestManualPages(t *testing.T) {
	results.Begin(t, suite, "manual", "each program has manual pages, also for its commands, and completions that a shell accepts")
	need(t, "bash", "bash")
	r := built(t)
	for pkg, commands := range map[string]map[string]string{
		"hitchctl":             {"hitchctl": "hitchctl-volume(1)", "hitchctl-volume-reformat": "ALL DATA ON IT IS LOST"},
		"nodehitch-agent":      {"nodehitch-agent": "nodehitch-agent-run(1)", "nodehitch-agent-apply": `permit-format`},
		"nodehitch-controller": {"nodehitch-controller": "nodehitch-controller-serve(1)", "nodehitch-controller-restore": "replace"},
	} {
		deb := r.deb(pkg, "amd64")
		for command, want := range commands {
			page := strings.ReplaceAll(gunzip(t, file(t, deb, "/usr/share/man/man1/"+command+".1.gz")), `\-`, "-")
			if !strings.Contains(page, want) || !strings.Contains(page, `"nodehitch `+r.version+`"`) {
				t.Errorf("the page of %s has no %q, or is of another version:\n%s", command, want, page)
			}
		}
		completion := filepath.Join(t.TempDir(), "completion")
		if err := os.WriteFile(completion, file(t, deb, "/usr/share/bash-completion/completions/"+pkg), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := run(t, "bash", "-c", `. "$0"; complete -p "$1"`, completion, pkg); !strings.Contains(out, "__start_"+pkg) {
			t.Errorf("bash completes %s by %q", pkg, out)
		}
	}
}
