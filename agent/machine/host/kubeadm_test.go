package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a program finds is what this lists, in the place of kubeadm.
func listing(directory string) func(string) Command {
	return func(file string) Command {
		return Command{Argv: []string{"sh", "-c", `stat -c %a "$1" "$2"; cat "$2"; exit 1`, "sh", directory, file}}
	}
}

func TestKubeadmsConfigurationIsThereOnlyWhileItRuns(t *testing.T) {
	r, log := runner(t)
	k := &kubeadm{run: r, directory: filepath.Join(t.TempDir(), "nodehitch", "kubeadm")}
	if err := os.MkdirAll(filepath.Join(k.directory, "left", "by"), 0o755); err != nil { // a killed agent
		t.Fatal(err)
	}
	const secret = "abcdef.0123456789abcdef"
	err := k.with(t.Context(), KubeadmConfig{Documents: []byte("token: " + secret + "\n"), Secrets: []string{secret}}, listing(k.directory))
	var failed *CommandError
	if !errors.As(err, &failed) || failed.Output != "700 | 600 | token: (redacted)" {
		t.Errorf("it ran with %v", err)
	}
	if strings.Contains(log.String()+err.Error(), secret) {
		t.Errorf("the secret is in %v, or in the log %s", err, log)
	}
	if _, err := os.Stat(k.directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its configuration is left: %v", err)
	}
}

func TestHowKubeadmUpgrades(t *testing.T) {
	for want, c := range map[string]Command{
		"kubeadm upgrade apply v1.35.4 --yes --ignore-preflight-errors=CreateJob,SystemVerification": kubeadmApplyCommand("1.35.4", []string{"CreateJob", "SystemVerification"}),
		"kubeadm upgrade node": kubeadmNodeCommand(nil),
	} {
		if got := strings.Join(c.Argv, " "); got != want || c.Reads || c.Limit == 0 {
			t.Errorf("it runs %q (%+v), want %q", got, c, want)
		}
	}
}

// kubeadm leaves a copy of etcd's data with each run. Only the last one is kept.
func TestCopiesOfEtcdDoNotFillTheDisk(t *testing.T) {
	r, _ := runner(t)
	dir := t.TempDir()
	k := &kubeadm{run: r, etcdCopies: filepath.Join(dir, "kubeadm-backup-etcd-*")}
	for _, name := range []string{"kubeadm-backup-etcd-2026-11-29-03-00-01", "kubeadm-backup-etcd-2026-11-29-02-00-00", "kubeadm-backup-etcd-2025-01-01-00-00-00", "kubeadm-backup-manifests-2025-01-01-00-00-00"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "etcd", "member"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := k.upgrade(t.Context(), Command{Argv: []string{"sh", "-c", "exit 0"}}); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 2 || left[0].Name() != "kubeadm-backup-etcd-2026-11-29-03-00-01" {
			t.Errorf("there are %v, %v", left, err)
		}
	}
}

func TestVersionsOfKubernetes(t *testing.T) {
	for printed, want := range map[string]string{
		"v1.34.4\n": "1.34.4", "Kubernetes v1.34.4\n": "1.34.4", "v1.34.4+k0s": "1.34.4", "v1.35.0-rc.1\n": "1.35.0-rc.1", "": "", "flag provided but not defined": "",
	} {
		if got, err := parseKubernetesVersion(printed); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v, want %q", printed, got, err, want)
		}
	}
}

func TestAProgramThatIsMissingHasNoVersion(t *testing.T) {
	r, _ := runner(t)
	k := &kubeadm{run: r}
	if got, err := k.version(t.Context(), &k.kubeletVersion, Command{Argv: []string{"no-such-program"}}); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTheKernelsParameters(t *testing.T) {
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "sys/net/ipv4"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		"sys/net/ipv4/ip_forward": "0\n",
		"filesystems":             "nodev\tsysfs\nnodev\toverlay\n\text4\n",
		"swaps":                   "Filename\tType\tSize\tUsed\tPriority\n/dev/vda2  partition\t1\t0\t-2\n/swapfile file 1 0 -3\n",
	} {
		if err := os.WriteFile(filepath.Join(proc, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := LinuxAt(Paths{Proc: proc}, slog.New(slog.DiscardHandler)).Kernel
	if err := k.Set("net.ipv4.ip_forward", "1"); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Setting("net.ipv4.ip_forward"); err != nil || !strings.HasPrefix(got, "1") {
		t.Errorf("it is %q, %v", got, err)
	}
	if err := k.Set("net.bridge.bridge-nf-call-iptables", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a parameter that the kernel does not have: %v", err)
	}
	if got, err := k.Swaps(); err != nil || strings.Join(got, " ") != "/dev/vda2 /swapfile" {
		t.Errorf("it swaps to %q, %v", got, err)
	}
	for name, want := range map[string]bool{"overlay": true, "ext4": true, "over": false, "nfs4": false} {
		if got, err := k.FileSystem(name); got != want || err != nil {
			t.Errorf("%s is there: %v, %v", name, got, err)
		}
	}
	if all, err := k.Addresses(); err != nil || len(all) == 0 {
		t.Errorf("the addresses are %v, %v", all, err)
	}
}
