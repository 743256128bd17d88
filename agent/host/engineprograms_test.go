package host

import (
	"slices"
	"testing"
)

func TestContainerdVersion(t *testing.T) {
	for line, want := range map[string]string{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n":                    "1.6.20",
		"containerd containerd.io 1.7.27 05044ec0a9a75232cad458027ca83437aae3f4da\n":                       "1.7.27",
		"containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376\n": "2.1.4",
		"containerd github.com/containerd/containerd/v2 2.0\n":                                             "2.0",
		"ctr github.com/containerd/containerd 1.6.20\n":                                                    "",
		"containerd\n": "",
	} {
		found := containerdVersion.FindStringSubmatch(line)
		if got := slices.Concat(found, []string{"", ""})[min(1, len(found))]; got != want {
			t.Errorf("of %q: %q, want %q", line, got, want)
		}
	}
}

func TestSplitCommandLine(t *testing.T) {
	for content, want := range map[string][]string{
		"":                                     nil,
		"/usr/bin/dockerd\x00-H\x00fd://\x00":  {"/usr/bin/dockerd", "-H", "fd://"},
		"/usr/bin/dockerd\x00--label=\x00\x00": {"/usr/bin/dockerd", "--label=", ""},
	} {
		if got := splitCommandLine([]byte(content)); !slices.Equal(got, want) {
			t.Errorf("of %q: %q, want %q", content, got, want)
		}
	}
}
