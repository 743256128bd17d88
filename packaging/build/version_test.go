package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// builds are in the order of their age.
var builds = []struct {
	name, version string
	hour          int
}{
	{"784fea1", "0.0.0~20260102030405.784fea1", 3},
	{"devel", "0.0.0~20260102040405.devel", 4},
	{"784fea1-dirty", "0.0.0~20260102050405.784fea1.dirty", 5},
	{"v0.1.0-rc.1", "0.1.0~rc.1", 6},
	{"v0.1.0-rc.1-3-g784fea1", "0.1.0~rc.1+3.g784fea1", 7},
	{"v0.1.0-rc.2", "0.1.0~rc.2", 8},
	{"v0.1.0", "0.1.0", 9},
	{"v0.1.0-3-g784fea1", "0.1.0+3.g784fea1", 10},
	{"v0.1.0-12-g1234567-dirty", "0.1.0+12.g1234567.dirty", 11},
	{"v0.1.1-rc.1", "0.1.1~rc.1", 12},
	{"v0.10.0", "0.10.0", 13},
}

// A package manager must take a later build for an upgrade.
func TestVersionsAreOrderedAsTheBuildsAre(t *testing.T) {
	before := ""
	for _, b := range builds {
		version := packageVersion(b.name, time.Date(2026, 1, 2, b.hour, 4, 5, 0, time.UTC))
		if version != b.version {
			t.Errorf("%s is %s, want %s", b.name, version, b.version)
		}
		if before != "" {
			earlier(t, before+"-1", version+"-1")
		}
		before = version
	}
}

func earlier(t *testing.T, a, b string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
		t.Errorf("dpkg: %s is not before %s: %v %s", a, b, err, out)
	}
	out, err := exec.CommandContext(t.Context(), "rpm", "--eval", fmt.Sprintf("%%{lua: print(rpm.vercmp(%q, %q))}", a, b)).Output()
	if err != nil {
		t.Logf("not compared as rpm does, because there is no rpm: %v", err)
	} else if strings.TrimSpace(string(out)) != "-1" {
		t.Errorf("rpm: %s is not before %s: %s", a, b, out)
	}
}
