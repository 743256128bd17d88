package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseExports(t *testing.T) {
	// exportfs -s of nfs-utils 2.6.2.
	got := ParseExports("/volume/nfs/pv1  10.10.0.0/24(sync,wdelay,hide,rw)\n/volume  fd00::/64(ro)\n/other  *()\n\nnonsense\n")
	want := []Export{
		{Directory: "/volume/nfs/pv1", Client: "10.10.0.0/24", Options: []string{"sync", "wdelay", "hide", "rw"}},
		{Directory: "/volume", Client: "fd00::/64", Options: []string{"ro"}},
		{Directory: "/other", Client: "*"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseExports(f *testing.F) {
	f.Add("/volume/nfs/pv1  10.10.0.0/24(sync,wdelay,hide,rw)\n")
	f.Add("/a b c(d,e\n((\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range ParseExports(text) {
			if strings.ContainsAny(e.Client, " \n(") || strings.ContainsAny(e.Directory, "\n") {
				t.Errorf("%q: %+v", text, e)
			}
		}
	})
}

func TestSameHost(t *testing.T) {
	n := Linux(nil).NFS
	for pair, want := range map[[2]string]bool{
		{"a.example", "A.Example"}:              true,
		{"10.0.0.1", "10.0.0.1"}:                true,
		{"::ffff:10.0.0.1", "10.0.0.1"}:         true,
		{"fd00::1", "fd00:0::1"}:                true,
		{"10.0.0.1", "10.0.0.2"}:                false,
		{"localhost", "127.0.0.1"}:              true,
		{"no-such-host.invalid", "10.0.0.2"}:    false,
		{"no-such-host.invalid", "no2.invalid"}: false,
	} {
		if got := n.SameHost(t.Context(), pair[0], pair[1]); got != want {
			t.Errorf("%q: got %v, want %v", pair, got, want)
		}
	}
}

func TestStateOfTheNFSServer(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  NFSState
	}{
		"not loaded":      {nil, NFSState{}},
		"loaded":          {map[string]string{"threads": "0\n", "versions": "\n"}, NFSState{}},
		"all versions":    {map[string]string{"threads": "8\n", "versions": "-2 +3 +4 +4.1 +4.2\n", "clients/1/info": "", "clients/7/info": ""}, NFSState{Threads: 8, Clients: 2, Version3: true}},
		"NFSv4 alone":     {map[string]string{"threads": "8\n", "versions": "-2 -3 +4 +4.1 +4.2\n"}, NFSState{Threads: 8}},
		"threads unknown": {map[string]string{"threads": "?\n"}, NFSState{Threads: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			for path, content := range c.files {
				path = filepath.Join(proc, "fs/nfsd", path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := (&nfs{proc: proc}).State()
			if refused := c.want.Threads < 0; refused != (err != nil) || !refused && got != c.want {
				t.Errorf("got %+v, %v; expected %+v", got, err, c.want)
			}
		})
	}
}
