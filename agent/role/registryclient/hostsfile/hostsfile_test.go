package hostsfile_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/hostsfile"
)

const (
	debian = "127.0.0.1\tlocalhost\n127.0.1.1\tnode-1\n\n# IPv6\n::1 localhost ip6-localhost\n"
	block  = "# BEGIN nodehitch\n# Kept by nodehitch-agent: what is changed between these two lines is put back.\n10.10.0.2\treg.example reg\nfd00::2\treg6\n# END nodehitch\n"
)

var entries = []hostsfile.Entry{entry("10.10.0.2", "reg.example", "reg"), entry("fd00::2", "reg6")}

func TestSet(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"at the end":        {debian, debian + block},
		"no file":           {"", block},
		"without a newline": {"127.0.0.1 localhost", "127.0.0.1 localhost\n" + strings.Replace(block, "back.\n", "back.\n# The line before this block had no newline.\n", 1)},
		"without a newline, at an address that is ours too": {"10.10.0.2 mine", "10.10.0.2 mine\n" + strings.Replace(block, "back.\n", "back.\n# The line before this block had no newline.\n", 1)},
		"CRLF":                      {crlf(debian), crlf(debian + block)},
		"CRLF, without a newline":   {"127.0.0.1 localhost\r\n::1 localhost", "127.0.0.1 localhost\r\n::1 localhost\r\n" + crlf(strings.Replace(block, "back.\n", "back.\n# The line before this block had no newline.\n", 1))},
		"after a line that is ours": {debian + "10.10.0.2\treg.example reg\n", debian + "10.10.0.2\treg.example reg\n" + block},
	} {
		t.Run(name, func(t *testing.T) {
			after := set(t, c.before, entries...)
			if diff := cmp.Diff(c.after, after); diff != "" {
				t.Fatalf("set (-wanted +got):\n%s", diff)
			}
			if again := set(t, after, entries...); again != after {
				t.Errorf("set again:\n%s", again)
			}
			if !hostsfile.Has([]byte(after)) || hostsfile.Has([]byte(c.before)) {
				t.Error("does not know its own")
			}
			if diff := cmp.Diff(c.before, set(t, after)); diff != "" {
				t.Errorf("set and removed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestChange: the block keeps its place, and the lines around it stay.
func TestChange(t *testing.T) {
	one := []hostsfile.Entry{entry("10.10.0.20", "other")}
	const changed = "# BEGIN nodehitch\n# Kept by nodehitch-agent: what is changed between these two lines is put back.\n10.10.0.20\tother\n# END nodehitch\n"
	for name, c := range map[string]struct{ before, after string }{
		"at the end":                    {debian + block, debian + changed},
		"in the middle":                 {debian + block + "10.0.0.9 mine\n", debian + changed + "10.0.0.9 mine\n"},
		"in the middle, no newline":     {block + "10.0.0.9 mine", changed + "10.0.0.9 mine"},
		"changed by hand":               {debian + strings.Replace(block, "10.10.0.2\t", "10.10.0.3 ", 1), debian + changed},
		"the comment removed":           {"# BEGIN nodehitch\n10.10.0.20\tother\n# END nodehitch\n", changed},
		"two of them":                   {block + debian + block, changed + debian},
		"white space behind the marker": {strings.Replace(block, "# END nodehitch", " # END nodehitch \t", 1), changed},
		"appended after a line without newline": {
			"127.0.0.1 a\n# BEGIN nodehitch\n# The line before this block had no newline.\n# END nodehitch\n10.0.0.9 mine\n", "127.0.0.1 a\n" + changed + "10.0.0.9 mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.after, set(t, c.before, one...)); diff != "" {
				t.Errorf("(-wanted +got):\n%s", diff)
			}
		})
	}
}

// TestAppended: what others append to the file is no reason to write it again.
func TestAppended(t *testing.T) {
	content := set(t, "127.0.0.1 localhost", entries...) + "10.0.0.9 mine\n"
	if got := set(t, content, entries...); got != content {
		t.Errorf("set again:\n%s", got)
	}
	if got := set(t, content); got != "127.0.0.1 localhost\n10.0.0.9 mine\n" {
		t.Errorf("removed:\n%s", got)
	}
}

// TestDamaged: no line of an incomplete block is lost that may be the operator's.
func TestDamaged(t *testing.T) {
	const about = "# Kept by nodehitch-agent: what is changed between these two lines is put back.\n"
	const stale = "10.10.0.7\tstale\n"
	ours := "10.10.0.2\treg.example reg\nfd00::2\treg6\n"
	for name, c := range map[string]struct{ before, after, removed string }{
		"the last line is missing": {
			"127.0.0.1 a\n# BEGIN nodehitch\n" + about + ours + "10.0.0.9 mine\n",
			"127.0.0.1 a\n10.0.0.9 mine\n" + block, "127.0.0.1 a\n10.0.0.9 mine\n"},
		"the last line is missing, and it is not what is wanted": {
			"# BEGIN nodehitch\n" + about + stale + "10.0.0.9 mine\n",
			stale + "10.0.0.9 mine\n" + block, stale + "10.0.0.9 mine\n"},
		"the first line is missing": {
			"10.0.0.9 mine\n" + about + ours + "# END nodehitch\n127.0.0.1 a\n",
			"10.0.0.9 mine\n127.0.0.1 a\n" + block, "10.0.0.9 mine\n127.0.0.1 a\n"},
		"the lines are in the wrong order": {
			"# END nodehitch\n10.0.0.9 mine\n# BEGIN nodehitch\n",
			"10.0.0.9 mine\n" + block, "10.0.0.9 mine\n"},
		"only the first line, and the last one of the file is the owner's, at an address that is ours too": {
			"# BEGIN nodehitch\n10.10.0.2 mine",
			"10.10.0.2 mine\n" + strings.Replace(block, "back.\n", "back.\n# The line before this block had no newline.\n", 1), "10.10.0.2 mine"},
		"one begins in another": {
			"# BEGIN nodehitch\n10.0.0.9 mine\n" + block,
			"10.0.0.9 mine\n" + block, "10.0.0.9 mine\n"},
		"one ends twice": {
			block + "10.0.0.9 mine\n# END nodehitch\n",
			block + "10.0.0.9 mine\n", "10.0.0.9 mine\n"},
		"a line of the same entry that is not beside it": {
			"10.10.0.2\treg.example reg\n10.0.0.9 mine\n# END nodehitch\n",
			"10.10.0.2\treg.example reg\n10.0.0.9 mine\n" + block, "10.10.0.2\treg.example reg\n10.0.0.9 mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if !hostsfile.Has([]byte(c.before)) {
				t.Error("there is nothing to do")
			}
			after := set(t, c.before, entries...)
			if diff := cmp.Diff(c.after, after); diff != "" {
				t.Errorf("set (-wanted +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.removed, set(t, after)); diff != "" {
				t.Errorf("removed (-wanted +got):\n%s", diff)
			}
		})
	}
}

func TestRemoveIsExact(t *testing.T) {
	both := set(t, "10.10.0.20 mine\n10.10.0.2 mine-too\n", entry("10.10.0.2", "reg"), entry("10.10.0.20", "reg20"))
	got := set(t, both, entry("10.10.0.20", "reg20"))
	if !strings.HasPrefix(got, "10.10.0.20 mine\n10.10.0.2 mine-too\n#") || !strings.Contains(got, "\n10.10.0.20\treg20\n#") || strings.Contains(got, "10.10.0.2\t") {
		t.Errorf("got\n%s", got)
	}
}

func TestNoLine(t *testing.T) {
	for name, e := range map[string]hostsfile.Entry{
		"no address":    {Names: []string{"a"}},
		"no names":      entry("10.0.0.1"),
		"an empty name": entry("10.0.0.1", ""),
		"two in one":    entry("10.0.0.1", "a b"),
		"a new line":    entry("10.0.0.1", "a\n10.0.0.2"),
		"a comment":     entry("10.0.0.1", "a#b"),
		"a zone":        entry("fe80::1%a\nb", "a"),
		"no ASCII":      entry("10.0.0.1", "ä"),
	} {
		if got, err := hostsfile.Set([]byte(debian), []hostsfile.Entry{e}); err == nil || got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestConflicts(t *testing.T) {
	content := "10.10.0.9 other REG # not reg6\n" + // 1
		"# 10.10.0.9 reg\n" +
		"fd00::9 reg reg6\n" + // 3: reg has no address of this family to be
		"10.10.0.2 reg\n" +
		block +
		"no-address reg\n\n   10.10.0.8\treg.example reg\r\n" + // 12
		"::ffff:10.10.0.2 reg\n" +
		"::ffff:10.10.0.3 reg\n" // 14
	var got []string
	for _, c := range hostsfile.Conflicts([]byte(content), entries) {
		got = append(got, c.String())
	}
	if diff := cmp.Diff([]string{
		"line 1 gives reg the address 10.10.0.9, not 10.10.0.2",
		"line 3 gives reg6 the address fd00::9, not fd00::2",
		"line 12 gives reg.example the address 10.10.0.8, not 10.10.0.2",
		"line 12 gives reg the address 10.10.0.8, not 10.10.0.2",
		"line 14 gives reg the address 10.10.0.3, not 10.10.0.2",
	}, got); diff != "" {
		t.Errorf("(-wanted +got):\n%s", diff)
	}
	moved := []hostsfile.Entry{entry("10.10.0.3", "reg")}
	if got := hostsfile.Conflicts([]byte(debian+block), moved); got != nil {
		t.Errorf("with its own block: %v", got)
	}
}

func entry(address string, names ...string) hostsfile.Entry {
	return hostsfile.Entry{Address: netip.MustParseAddr(address), Names: names}
}

func set(t *testing.T, content string, entries ...hostsfile.Entry) string {
	t.Helper()
	after, err := hostsfile.Set([]byte(content), entries)
	if err != nil {
		t.Fatal(err)
	}
	return string(after)
}

func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
