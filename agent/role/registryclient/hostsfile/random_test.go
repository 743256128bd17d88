package hostsfile_test

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/hostsfile"
)

var (
	address = rapid.SampledFrom([]string{"10.10.0.2", "10.10.0.20", "10.10.0.200", "fd00::2", "fd00::20"})
	name    = rapid.SampledFrom([]string{"reg", "reg2", "reg.example", "r"})
	line    = rapid.OneOf(
		rapid.Map(address, func(a string) string { return a + " mine" }),
		rapid.SampledFrom([]string{"", "# mine", "127.0.0.1\tlocalhost", "\t", "x # BEGIN nodehitch", "# BEGIN nodehitch 2"}))
	marker = rapid.SampledFrom([]string{"# BEGIN nodehitch", "# END nodehitch"})
)

func drawEntries(t *rapid.T) []hostsfile.Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hostsfile.Entry {
		return hostsfile.Entry{
			Address: netip.MustParseAddr(address.Draw(t, "address")),
			Names:   rapid.SliceOfN(name, 1, 3).Draw(t, "names"),
		}
	}), 1, 4).Draw(t, "entries")
}

func drawText(t *rapid.T, line *rapid.Generator[string]) string {
	text := strings.Join(rapid.SliceOfN(line, 0, 6).Draw(t, "lines"), "\n")
	if text != "" && rapid.Bool().Draw(t, "terminated") {
		text += "\n"
	}
	if rapid.Bool().Draw(t, "CRLF") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// TestRandom sets random entries one after the other: after the last removal, the file is the
// same as before.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawText(t, line)
		content := []byte(before)
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			entries := drawEntries(t)
			after, err := hostsfile.Set(content, entries)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := hostsfile.Set(after, entries); err != nil || string(again) != string(after) {
				t.Fatalf("set again: %v\n%q\n%q", err, after, again)
			}
			if !strings.HasPrefix(string(after), before) {
				t.Fatalf("\n-- before\n%q\n-- set\n%q", before, after)
			}
			content = after
		}
		if rest, err := hostsfile.Set(content, nil); err != nil || string(rest) != before {
			t.Fatalf("%v\n-- before\n%q\n-- set\n%q\n-- removed\n%q", err, before, content, rest)
		}
	})
}

// TestRandomDamage: in a file with markers anywhere, every line outside complete blocks that
// is not nodehitch's stays, in order.
func TestRandomDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawText(t, rapid.OneOf(line, line, marker))
		after, err := hostsfile.Set([]byte(before), drawEntries(t))
		if err != nil {
			t.Fatal(err)
		}
		rest, err := hostsfile.Set(after, nil)
		if err != nil || hostsfile.Has(rest) {
			t.Fatalf("%v: %q", err, rest)
		}
		if got, wanted := words(string(rest)), words(owners(before)); got != wanted {
			t.Fatalf("\n-- before\n%q\n-- set\n%q\n-- removed\n%q\n-- wanted\n%q", before, after, rest, wanted)
		}
	})
}

// owners is the text without whole blocks and lone markers.
func owners(text string) string {
	var kept, open []string
	inside := false
	for _, l := range strings.Split(text, "\n") {
		switch strings.TrimSpace(l) {
		case "# BEGIN nodehitch":
			kept, open, inside = append(kept, open...), nil, true
		case "# END nodehitch":
			if !inside {
				kept = append(kept, open...)
			}
			open, inside = nil, false
		default:
			open = append(open, l)
			if !inside {
				kept, open = append(kept, open...), nil
			}
		}
	}
	return strings.Join(append(kept, open...), "\n")
}

// words are the lines with text.
func words(text string) string {
	var said []string
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			said = append(said, l)
		}
	}
	return strings.Join(said, "\n")
}

// FuzzSet: no content makes it panic, and what it has set it can take away.
func FuzzSet(f *testing.F) {
	f.Add([]byte(debian+block), "10.10.0.2", "reg")
	f.Add([]byte("127.0.0.1 a\n127.0.0.1 b\r"), "10.10.0.2", "reg")
	f.Add([]byte("# END nodehitch\n# BEGIN nodehitch\n\r\n"), "fd00::1", "a")
	f.Fuzz(func(t *testing.T, content []byte, address, name string) {
		a, err := netip.ParseAddr(address)
		if err != nil {
			return
		}
		entries := []hostsfile.Entry{{Address: a, Names: []string{name}}}
		after, err := hostsfile.Set(content, entries)
		if err != nil {
			return
		}
		if again, err := hostsfile.Set(after, entries); err != nil || string(again) != string(after) {
			t.Fatalf("%v: %q, then %q", err, after, again)
		}
		if line := a.String() + "\t" + name; strings.Count("\n"+strings.ReplaceAll(string(after), "\r", ""), "\n"+line+"\n") == 0 {
			t.Fatalf("no line %q in %q", line, after)
		}
		rest, err := hostsfile.Set(after, nil)
		if err != nil || hostsfile.Has(rest) {
			t.Fatalf("%v: %q", err, rest)
		}
		if !hostsfile.Has(content) && string(rest) != string(content) && !strings.HasSuffix(string(content), "\r") {
			t.Fatalf("\n-- before\n%q\n-- after\n%q", content, rest)
		}
		hostsfile.Conflicts(after, entries)
	})
}
