package storage

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/state"
)

func TestUnfinishedNamesTheVolume(t *testing.T) {
	const volume, other = "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70"
	of := func(p phase) record { return record{VolumeID: volume, Phase: p, Permit: "p"} }
	for name, c := range map[string]struct {
		write func(*journal) error
		want  string
	}{
		"no record":         {func(*journal) error { return nil }, ""},
		"before mkfs":       {func(j *journal) error { return j.write(of(permitted)) }, ""},
		"in mkfs":           {func(j *journal) error { return j.write(of(started)) }, volume},
		"after it":          {func(j *journal) error { return j.write(of(reported)) }, ""},
		"a damaged record":  {func(j *journal) error { return os.WriteFile(filepath.Join(j.dir, volume+".json"), []byte("{"), 0o600) }, volume},
		"in resize2fs":      {func(j *journal) error { return j.writeGrowth(growth{VolumeID: volume, Phase: growing}) }, volume},
		"after resize2fs":   {func(j *journal) error { return j.writeGrowth(growth{VolumeID: volume, Phase: grown}) }, ""},
		"another file":      {func(j *journal) error { return os.WriteFile(filepath.Join(j.dir, ".x.json.17.new"), nil, 0o600) }, ""},
		"one of two is cut": {func(j *journal) error { return os.WriteFile(filepath.Join(j.dir, other+".json"), nil, 0o600) }, other},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := &journal{files: host.Linux(nil).Files, dir: filepath.Join(dir, state.JournalDirectory), now: time.Now}
			if name != "no record" {
				if err := os.Mkdir(j.dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.write(j); err != nil {
				t.Fatal(err)
			}
			if got, err := Unfinished(dir); got != c.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}
