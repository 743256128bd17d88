package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lockVariable makes this test binary a process that has a lock.
const lockVariable = "NODEHITCH_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockVariable); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		}
		fmt.Println(err)
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestLockHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock-frontend")
	if got := lockHolder(path); got != 0 {
		t.Errorf("no lock at all is taken by %d", got)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lockHolder(path); got != 0 {
		t.Errorf("a free lock is taken by %d", got)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), lockVariable+"="+path)
	stdin, err := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(err, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("the other process: %s", line)
	}
	if got := lockHolder(path); got != cmd.Process.Pid {
		t.Errorf("taken by %d, want %d", got, cmd.Process.Pid)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestMissingAsksOnceWhileNothingChanges(t *testing.T) {
	status := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(status, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &family{names: debianNames, marks: []string{status}}
	asked := 0
	have := map[string]bool{"e2fsprogs": true}
	ask := func() []Software {
		t.Helper()
		missing, err := f.missing(t.Context(), []Software{Ext4Tools, NFSServer}, func(_ context.Context, names []string) (map[string]bool, error) {
			asked++
			return have, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return missing
	}
	for range 2 {
		if got := ask(); !slices.Equal(got, []Software{NFSServer}) {
			t.Errorf("missing %q", got)
		}
	}
	have["nfs-kernel-server"] = true
	if got := ask(); len(got) != 0 {
		t.Errorf("missing %q", got)
	}
	before := asked
	if ask(); asked != before {
		t.Error("asked again although everything is installed and nothing has changed")
	}
	delete(have, "nfs-kernel-server")
	if err := os.WriteFile(status, []byte("ab"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(); !slices.Equal(got, []Software{NFSServer}) {
		t.Errorf("after a change, missing %q", got)
	}
}

func TestProxyIsInTheEnvironmentOfOneCommand(t *testing.T) {
	c := through(Proxy{HTTP: "http://user1:password1@host1:port1", NoProxy: "10.0.0.0/8"}, aptInstallCommand("nfs-kernel-server"))
	for _, want := range []string{"http_proxy=http://user1:password1@host1:port1", "HTTP_PROXY=http://user1:password1@host1:port1", "no_proxy=10.0.0.0/8", "DEBIAN_FRONTEND=noninteractive"} {
		if !slices.Contains(c.Env, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(strings.Join(c.Argv, " "), "password1") {
		t.Error("the password is in argv")
	}
	if slices.Contains(aptEnvironment, "http_proxy=http://user1:password1@host1:port1") {
		t.Error("the proxy has leaked into all commands")
	}
	for _, secret := range []string{"http://user1:password1@host1:port1", "user1:password1", "password1"} {
		if !slices.Contains(c.Secrets, secret) {
			t.Errorf("%s would be shown", secret)
		}
	}
}

// Messages of apt 2.6 and dpkg 1.21.
func TestAptMessages(t *testing.T) {
	fails := func(text string) error {
		return &CommandError{Code: 100, Output: text, Err: errors.New("exit status 100")}
	}
	for text, want := range map[string]bool{
		"E: Unable to locate package nfs-kernel-server":                true,
		"E: Package 'nfs-kernel-server' has no installation candidate": true,
		"E: Failed to fetch http://mirror.example/x.deb  404  Not Found [IP: 192.0.2.1 80] | E: Unable to fetch some archives, maybe run apt-get update": true,
		"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 12 (apt)":                                                              false,
		"E: The package dmsetup needs to be reinstalled, but I can't find an archive for it.":                                                            true,
		"E: You don't have enough free space": false,
	} {
		if got := staleLists(fails(text)); got != want {
			t.Errorf("%q: stale lists %v, want %v", text, got, want)
		}
	}
	if staleLists(nil) || interruptedDpkg(nil) {
		t.Error("success is no failure")
	}
	if !interruptedDpkg(fails("E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.")) {
		t.Error("an interrupted dpkg is not recognised")
	}
}

// What apt 3.0 prints for docker.io of Debian 13, and apt 2.6 for that of Debian 12.
func TestRecommends(t *testing.T) {
	for related, want := range map[string]bool{
		"docker.io\n  Depends: containerd\n  Recommends: docker-cli\n  Recommends: git\n": true,
		"docker.io\n |Recommends: docker-cli\n  Recommends: podman\n":                     true,
		"docker.io\n  Depends: containerd\n  Recommends: docker-cli-extra\n":              false,
		"docker.io\n  Recommends: <docker-cli>\n":                                         false,
		"docker.io\n  Breaks: docker-cli\n  Replaces: docker-cli\n":                       false,
		"": false,
	} {
		if got := recommends(related, "docker-cli"); got != want {
			t.Errorf("%q: %v, want %v", related, got, want)
		}
	}
}

// The real package manager, read-only.
func TestInstalledPackages(t *testing.T) {
	if !installed("dpkg-query") {
		t.Skip("needs dpkg-query")
	}
	h := Linux(nil)
	missing, err := h.Packages.Missing(t.Context(), Ext4Tools)
	if err != nil {
		t.Fatal(err)
	}
	if want := !installed("mkfs.ext4"); (len(missing) > 0) != want {
		t.Errorf("missing %q, mkfs.ext4 is installed: %v", missing, !want)
	}
}
