package screen_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
)

func nodes() screen.Table {
	t := screen.Table{Columns: []screen.Column{
		{Title: "NAME"}, {Title: "ROLE", Spare: 1}, {Title: "READY"}, {Title: "SEEN", Spare: 2}, {Title: "MESSAGE", Flexible: true},
	}}
	t.Add(screen.Text("storage_server"), screen.Text("storage"), screen.Cell{Text: "True", Style: screen.Good}, screen.Text("3s"))
	t.Add(screen.Text("master-1"), screen.Text("master"), screen.Cell{Text: "False", Style: screen.Bad}, screen.Text("12m"),
		screen.Text("no disk with the volume's id is attached"))
	return t
}

func lines(width int, t screen.Table) string {
	return strings.Join(screen.Plain(&bytes.Buffer{}, width).Lines(t), "\n")
}

func TestTableAtWidths(t *testing.T) {
	tests := map[int]string{
		0: "NAME            ROLE     READY  SEEN  MESSAGE\n" +
			"storage_server  storage  True   3s\n" +
			"master-1        master   False  12m   no disk with the volume's id is attached",
		60: "NAME            ROLE     READY  SEEN  MESSAGE\n" +
			"storage_server  storage  True   3s\n" +
			"master-1        master   False  12m   no disk with the volu…",
		50: "NAME            ROLE     READY  MESSAGE\n" +
			"storage_server  storage  True\n" +
			"master-1        master   False  no disk with the…",
		40: "NAME            READY  MESSAGE\n" +
			"storage_server  True\n" +
			"master-1        False  no disk with the…",
		24: "NAME     READY  MESSAGE\n" +
			"storag…  True\n" +
			"master…  False  no disk…",
	}
	for width, want := range tests {
		if diff := cmp.Diff(want, lines(width, nodes())); diff != "" {
			t.Errorf("width %d: %s", width, diff)
		}
	}
}

func TestNoLineIsWiderThanTheScreen(t *testing.T) {
	table := nodes()
	table.Add(screen.Text("日本語の名前"), screen.Text("storage"), screen.Text("True"), screen.Text("1s"), screen.Text("ディスクがありません。接続してください"))
	for _, wrap := range []bool{false, true} {
		table.Wrap = wrap
		for width := 24; width < 120; width++ {
			for _, line := range strings.Split(lines(width, table), "\n") {
				if got := screen.Width(line); got > width {
					t.Fatalf("width %d, wrap %v: a line of %d: %q", width, wrap, got, line)
				}
			}
		}
	}
}

func TestWrappedCells(t *testing.T) {
	table := nodes()
	table.Wrap, table.Rows = true, table.Rows[1:]
	want := "NAME      ROLE    READY  SEEN  MESSAGE\n" +
		"master-1  master  False  12m   no disk with the\n" +
		"                               volume's id is\n" +
		"                               attached"
	if diff := cmp.Diff(want, lines(50, table)); diff != "" {
		t.Error(diff)
	}
}

// A node is not trusted: what it reports must not reach the terminal as a command.
func TestTextOfOthersCannotSteerTheTerminal(t *testing.T) {
	table := screen.Table{Columns: []screen.Column{{Title: "M"}}, Bare: true}
	table.Add(screen.Text("a\x1b]0;title\x07b\r\nc\u202ed\x00\xff"))
	if got, want := lines(0, table), "a?]0;title?b c?d??"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whatever a command prints, only colours of this program get through.
func TestNothingThatIsPrintedSteersTheTerminal(t *testing.T) {
	var out bytes.Buffer
	s := screen.Plain(&out, 0)
	s.Color = true
	fmt.Fprintf(s, "%s \x1b[2J\x1b[8mhidden \x1b]52;c;eA==\x07\u202e\u009b31m\r\n", s.Paint(screen.Bad, "bad"))
	live := s.Live()
	live.Draw([]string{"a\x1b[1Ab\rc"})
	live.Done()
	want := "\x1b[31;1mbad\x1b[0m ?[2J?[8mhidden ?]52;c;eA==???31m?\n\x1b[?25l\ra?[1Ab?c\x1b[K\n\x1b[J\x1b[?25h"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func TestColours(t *testing.T) {
	s := screen.Plain(&bytes.Buffer{}, 0)
	if got := s.Paint(screen.Bad, "x"); got != "x" {
		t.Errorf("got %q on a screen without colours", got)
	}
	s.Color = true
	table := nodes()
	table.Bare, table.Rows = true, table.Rows[:1]
	if got, want := strings.Join(s.Lines(table), "\n"), "storage_server  storage  \x1b[32mTrue\x1b[0m   3s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWrap(t *testing.T) {
	tests := map[string]struct {
		text  string
		limit int
		want  []string
	}{
		"no limit":    {"a b", 0, []string{"a b"}},
		"fits":        {"abc", 3, []string{"abc"}},
		"words":       {"one two three", 8, []string{"one two", "three"}},
		"a long word": {"/dev/disk/by-id/virtio x", 10, []string{"/dev/disk/", "by-id/", "virtio x"}},
		"too narrow":  {"日本", 1, []string{"日", "本"}},
		// A shell would run both parts of a broken command.
		"a command":           {"go on by (`wait op 1`) or", 16, []string{"go on by", "(`wait op 1`) or"}},
		"a long command":      {"run `wait operation 1` now", 12, []string{"run", "`wait operation 1`", "now"}},
		"a lone backtick":     {"one `two three", 8, []string{"one `two", "three"}},
		"a word as a command": {"see `/dev/disk/by-id`", 12, []string{"see", "`/dev/disk/", "by-id`"}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, screen.Wrap(test.text, test.limit)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A cell leaves no room for a command that is longer.
func TestACommandInACell(t *testing.T) {
	table := screen.Table{Bare: true, Wrap: true, Columns: []screen.Column{{}, {Flexible: true}}}
	table.Add(screen.Text("a"), screen.Text("or `b c` and `wait for operation 1`"))
	if got, want := lines(19, table), "a  or `b c` and\n   `wait for\n   operation 1`"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLiveRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	live := screen.Plain(&out, 80).Live()
	live.Draw([]string{"one", "two"})
	live.Draw([]string{"three"})
	live.Done()
	want := "\x1b[?25l" + "\rone\x1b[K\ntwo\x1b[K\n\x1b[J" + "\x1b[2A\rthree\x1b[K\n\x1b[J" + "\x1b[?25h"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func ExamplePlain() {
	for _, line := range screen.Plain(nil, 40).Lines(nodes()) {
		fmt.Println(line)
	}
	// Output:
	// NAME            READY  MESSAGE
	// storage_server  True
	// master-1        False  no disk with the…
}
