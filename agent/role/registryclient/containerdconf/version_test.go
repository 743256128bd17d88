package containerdconf_test

import (
	"testing"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/containerdconf"
)

func TestParseVersion(t *testing.T) {
	for text, wanted := range map[string]containerdconf.Version{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n":                         {Major: 1, Minor: 6},
		"containerd containerd.io v2.1.5 fcd43222d6b07379a4be9786bda52438f0dd16a1":                              {Major: 2, Minor: 1},
		"containerd github.com/containerd/containerd/v2 2.2.2+unknown ":                                         {Major: 2, Minor: 2},
		"containerd github.com/containerd/containerd 1.7.27-0ubuntu1~24.04.1 ":                                  {Major: 1, Minor: 7},
		"containerd github.com/containerd/containerd/v2 v2.4.0-beta.0 0123456789abcdef0123456789abcdef01234567": {Major: 2, Minor: 4},
		"1.5.18": {Major: 1, Minor: 5},
		"v2.0.0": {Major: 2, Minor: 0},
		"2.3":    {Major: 2, Minor: 3},
	} {
		if got, err := containerdconf.ParseVersion(text); got != wanted || err != nil {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "containerd", "containerd github.com/containerd/containerd", "x1.6.20", "1..6"} {
		if got, err := containerdconf.ParseVersion(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}
