package host

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// probePackage is what the test's source offers.
const probePackage = "nodehitch-apt-test"

// privateApt is the real apt-get and dpkg with a root, lists and sources of the test's own.
func privateApt(t *testing.T, sources ...string) (a *apt, root string) {
	t.Helper()
	for _, program := range []string{"apt-get", "dpkg", "dpkg-deb"} {
		if !installed(program) {
			t.Skipf("needs %s", program)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: dpkg installs into a root of the test's own")
	}
	dir := t.TempDir()
	root = filepath.Join(dir, "root")
	for _, path := range []string{"root/var/lib/dpkg/info", "root/var/lib/dpkg/updates", "root/var/log", "etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d", "etc/sources.list.d", "lists/partial", "cache/archives/partial", "log"} {
		mkdir(t, filepath.Join(dir, path))
	}
	var list strings.Builder
	for _, source := range sources {
		fmt.Fprintf(&list, "deb [trusted=yes] %s ./\n", source)
	}
	write(t, filepath.Join(dir, "etc/sources.list"), list.String())
	write(t, filepath.Join(root, "var/lib/dpkg/status"), "")
	write(t, filepath.Join(dir, "apt.conf"), fmt.Sprintf(`
Dir::Etc "%[1]s/etc"; Dir::State::lists "%[1]s/lists"; Dir::State::status "%[1]s/root/var/lib/dpkg/status";
Dir::State "%[1]s"; Dir::Cache "%[1]s/cache"; Dir::Log "%[1]s/log";
DPkg::Options { "--log=%[1]s/log/dpkg.log"; };
DPkg::Pre-Invoke ""; DPkg::Post-Invoke ""; DPkg::Pre-Install-Pkgs ""; APT::Update::Post-Invoke ""; APT::Update::Post-Invoke-Success "";
APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::http::Proxy "DIRECT";
`, dir))
	before := aptEnvironment
	// Packages' scripts are run by this machine's shell: the root has none.
	aptEnvironment = append([]string{"APT_CONFIG=" + filepath.Join(dir, "apt.conf"),
		"DPKG_ROOT=" + root, "DPKG_ADMINDIR=" + filepath.Join(root, "var/lib/dpkg"), "DPKG_FORCE=script-chrootless"}, before...)
	t.Cleanup(func() { aptEnvironment = before })
	return &apt{family: family{
		run:   &Runner{Log: slog.New(slog.DiscardHandler), Changes: &Changes{}},
		names: map[Software][]string{NFSClient: {probePackage}}, marks: []string{filepath.Join(root, "var/lib/dpkg/status")},
	}, lock: filepath.Join(root, "var/lib/dpkg/lock-frontend")}, root
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// source serves a repository with probePackage at /good, and 404 everywhere else.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	offer(t, filepath.Join(dir, "good"), probePackage, "", "")
	return serve(t, dir)
}

func serve(t *testing.T, dir string) string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return server.URL
}

// offer adds a package to the repository in a folder. It may need another one, and run a
// script before it is unpacked.
func offer(t *testing.T, repository, name, needs, preinst string) {
	t.Helper()
	content := t.TempDir()
	control := "Package: " + name + "\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: a test\n"
	if needs != "" {
		control += "Depends: " + needs + "\n"
	}
	mkdir(t, filepath.Join(content, "DEBIAN"))
	write(t, filepath.Join(content, "DEBIAN/control"), control)
	if preinst != "" {
		script := filepath.Join(content, "DEBIAN/preinst")
		write(t, script, preinst)
		if err := os.Chmod(script, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mkdir(t, repository)
	deb := filepath.Join(repository, name+".deb")
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--build", "--root-owner-group", content, deb).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(repository, "Packages")
	others, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, list, fmt.Sprintf("%s%sFilename: ./%s.deb\nSize: %d\nSHA256: %x\n\n", others, control, name, len(built), sha256.Sum256(built)))
}

// apt-get update fails if one source answers 404 or not at all, and has the lists of the others.
func TestASourceThatFailsDoesNotPreventTheInstallation(t *testing.T) {
	url := source(t)
	t.Run("another has the package", func(t *testing.T) {
		a, root := privateApt(t, url+"/gone", url+"/good")
		err := a.Install(t.Context(), Proxy{}, NFSClient)
		status, _ := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
		if err != nil || !strings.Contains(string(status), "Package: "+probePackage) {
			t.Errorf("the package is not installed: %v\n%s", err, status)
		}
	})
	t.Run("none has it", func(t *testing.T) {
		a, _ := privateApt(t, url+"/gone")
		err := a.Install(t.Context(), Proxy{}, NFSClient)
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "Unable to locate package") || !strings.Contains(err.Error(), "404") {
			t.Errorf("it is not said what the installation lacks, and what the update did: %v", err)
		}
	})
	t.Run("none answers", func(t *testing.T) {
		a, _ := privateApt(t, "http://127.0.0.1:1/debian")
		err := a.Install(t.Context(), Proxy{}, NFSClient)
		if err == nil || !strings.Contains(err.Error(), "apt-get update failed") || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("it is not said that no source answers: %v", err)
		}
	})
}

// A dpkg that is killed between two packages that need each other leaves one of them without
// the other. apt-get then installs nothing that is named to it.
func TestAKilledDpkgDoesNotPreventTheInstallation(t *testing.T) {
	const one, other = probePackage + "-1", probePackage + "-2"
	for _, c := range []struct {
		name      string
		killers   []string // the first of these that is unpacked has its dpkg killed
		listsGone bool
	}{
		{"between two that need each other", []string{one, other}, false},
		{"between what is needed and what needs it", []string{probePackage}, false},
		{"between two that need each other, and then the lists do not know them", []string{one, other}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			script := fmt.Sprintf("#!/bin/sh\n[ -e %[1]s ] || { echo >%[1]s; kill -KILL $PPID; }\n", filepath.Join(dir, "killed"))
			for _, p := range []struct{ name, needs string }{{probePackage, one}, {one, other}, {other, one}} {
				preinst := ""
				if slices.Contains(c.killers, p.name) {
					preinst = script
				}
				offer(t, filepath.Join(dir, "three"), p.name, p.needs, preinst)
			}
			a, root := privateApt(t, serve(t, dir)+"/three")
			if err := a.Install(t.Context(), Proxy{}, NFSClient); err == nil {
				t.Fatal("dpkg was not killed")
			}
			if c.listsGone {
				a.updated = time.Time{}
				if err := os.RemoveAll(filepath.Join(filepath.Dir(root), "lists")); err != nil {
					t.Fatal(err)
				}
			}
			err := a.Install(t.Context(), Proxy{}, NFSClient)
			status, _ := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
			if err != nil || strings.Count(string(status), "Status: install ok installed") != 3 {
				t.Errorf("the three packages are not installed: %v\n%s", err, status)
			}
		})
	}
}
