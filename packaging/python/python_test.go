package python

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestAsPython(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.0": "1.2.0", "1.2.0~rc.1": "1.2.0rc1", "1.2.0+7.g784fea1": "1.2.0+7.g784fea1", "1.2.0~rc.1+7.g784fea1.dirty": "1.2.0rc1+7.g784fea1.dirty",
		"0.0.0~20261123193000.784fea1.dirty": "0.0.0.dev20261123193000+784fea1.dirty",
	} {
		if got := asPython(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

// Tacker compares the installed shim with the VNF package's.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	if err := Write("../..", folder, "1.2.0~rc.1"); err != nil {
		t.Fatal(err)
	}
	for installed, source := range map[string]string{
		"nodehitch/tacker/shim/nodehitch_mgmt.py":              "shim/nodehitch_mgmt.py",
		"nodehitch/client.py":                                  "nodehitch/client.py",
		"nodehitch_tacker-1.2.0rc1.dist-info/entry_points.txt": "entry_points.txt",
	} {
		got, err := os.ReadFile(filepath.Join(folder, installed))
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(filepath.Join("../tacker", source)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from %s (%v)", installed, source, err)
		}
	}
}
