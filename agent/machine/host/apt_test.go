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
	"strings"
	"testing"
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
DPkg::Options { "--root=%[1]s/root"; "--log=%[1]s/log/dpkg.log"; };
DPkg::Pre-Invoke ""; DPkg::Post-Invoke ""; DPkg::Pre-Install-Pkgs ""; APT::Update::Post-Invoke ""; APT::Update::Post-Invoke-Success "";
APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::http::Proxy "DIRECT";
`, dir))
	before := aptEnvironment
	aptEnvironment = append([]string{"APT_CONFIG=" + filepath.Join(dir, "apt.conf")}, before...)
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
	mkdir(t, filepath.Join(dir, "p/DEBIAN"))
	control := "Package: " + probePackage + "\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: a test\n"
	write(t, filepath.Join(dir, "p/DEBIAN/control"), control)
	mkdir(t, filepath.Join(dir, "good"))
	deb := filepath.Join(dir, "good/p.deb")
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--build", "--root-owner-group", filepath.Join(dir, "p"), deb).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "good/Packages"), fmt.Sprintf("%sFilename: ./p.deb\nSize: %d\nSHA256: %x\n", control, len(content), sha256.Sum256(content)))
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return server.URL
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
