package facts

import (
	"runtime"
	"testing"
)

func TestPrettyName(t *testing.T) {
	for content, want := range map[string]string{
		"ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n": "Debian GNU/Linux 12 (bookworm)",
		"PRETTY_NAME='Rocky Linux 9'\n":                               "Rocky Linux 9",
		"PRETTY_NAME=Plain":                                           "Plain",
		"NAME=x\n":                                                    "",
	} {
		if got := prettyName(content); got != want {
			t.Errorf("%q: got %q", content, got)
		}
	}
}

func TestThisMachineHasFacts(t *testing.T) {
	f := Collect()
	if f.Architecture != runtime.GOARCH || f.KernelVersion == "" || f.Hostname == "" || len(f.BootID) != 36 || f.AgentVersion == "" {
		t.Errorf("got %+v", f)
	}
}
