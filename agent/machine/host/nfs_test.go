package host

import (
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
