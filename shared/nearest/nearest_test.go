package nearest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/nearest"
)

func TestName(t *testing.T) {
	known := []string{"VolumesMounted", "ExportsServed", "nodes", "--stack-id"}
	for name, want := range map[string]string{
		"VolumeMounted": "VolumesMounted", "volumesmounted": "VolumesMounted", "nods": "nodes", "stack_id": "--stack-id",
		"VolumesMounted": "VolumesMounted", "Mounted": "", "": "", "op": "", strings.Repeat("nodes", 100): "",
	} {
		if got := nearest.Name(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestUnknownMember(t *testing.T) {
	for name, want := range map[string]string{
		"Listen":  "did you mean listen? Names are case sensitive",
		"lissten": "is not known here; did you mean listen?",
		"trees":   "is not known here; known names are listen, names",
	} {
		if got := nearest.UnknownMember(name, slices.Values([]string{"names", "listen"})); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	for name, want := range map[string]string{
		"nods":  `there is no kind "nods"; did you mean nodes?`,
		"trees": `there is no kind "trees"; expected nodes, volumes`,
	} {
		if got := nearest.Unknown("kind", name, []string{"nodes", "volumes"}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
