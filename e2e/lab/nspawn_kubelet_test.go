package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Machines share the files of images, which containerd does not change, and no database.
func TestMachinesShareNoDatabaseOfContainerd(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	const blob, database = "io.containerd.content.v1.content/blobs/sha256/0a", "io.containerd.metadata.v1.bolt/meta.db"
	for _, path := range []string{blob, database} {
		if err := writeFile(filepath.Join(from, path), []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyContainerd(from, to); err != nil {
		t.Fatal(err)
	}
	for path, shared := range map[string]bool{blob: true, database: false} {
		original, err := os.Stat(filepath.Join(from, path))
		if err != nil {
			t.Fatal(err)
		}
		linked, err := os.Stat(filepath.Join(to, path))
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(to, path))
		if same := os.SameFile(original, linked); err != nil || string(content) != path || same != shared {
			t.Errorf("%s: %q, %v; the same file %v: want %v", path, content, err, same, shared)
		}
	}
}

// A copy of the snapshot is no machine for a kubelet, and says so before it starts.
func TestAVMWithAKubeletIsCold(t *testing.T) {
	_, err := new(Lab).VM(t.Context(), Spec{Name: "n", Kubelet: &Kubelet{}})
	if err == nil || !strings.Contains(err.Error(), "has to be Cold") {
		t.Errorf("a VM with a kubelet: %v", err)
	}
}
