// Package screen writes to a terminal, or to what is none: width, colour, tables,
// a display that is redrawn in place. Text of other machines is cleaned before it
// gets there, so that no message can steer the terminal.
package screen

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Screen is where a command's output goes.
type Screen struct {
	io.Writer
	// TTY says that it is a terminal: displays may be redrawn in place.
	TTY bool
	// Color says that colours may be used: a terminal, and NO_COLOR is not set.
	Color bool
	// Unicode says that symbols beyond ASCII can be shown.
	Unicode bool

	size func() (width, height int)
}

// New is the screen for a file, which is a terminal or not, and the environment:
// NO_COLOR (no-color.org), TERM, COLUMNS, and the locale's character set.
func New(out *os.File, getenv func(string) string) *Screen {
	fd := int(out.Fd())
	s := &Screen{Writer: out, TTY: term.IsTerminal(fd) && getenv("TERM") != "dumb"}
	s.Color = s.TTY && getenv("NO_COLOR") == ""
	s.Unicode = utf8Locale(getenv)
	columns, err := strconv.Atoi(getenv("COLUMNS"))
	fixed := err == nil && columns > 0
	s.size = func() (int, int) {
		width, height := 0, 0
		if s.TTY {
			width, height, _ = term.GetSize(fd)
		}
		if fixed {
			width = columns
		}
		return width, height
	}
	return s
}

// Plain is a screen of a given width that is no terminal; 0 is without limit.
func Plain(out io.Writer, width int) *Screen {
	return &Screen{Writer: out, Unicode: true, size: func() (int, int) { return width, 0 }}
}

// Width is the number of columns, 0 if there is no limit. It may change
// between two calls.
func (s *Screen) Width() int {
	width, _ := s.size()
	return width
}

// Height is the number of lines, 0 if there is no limit.
func (s *Screen) Height() int {
	_, height := s.size()
	return height
}

// utf8Locale follows the order of setlocale(3).
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}

// Unlimited is the screen without a limit to its width.
func Unlimited(s *Screen) *Screen {
	wide := *s
	wide.size = func() (int, int) { return 0, s.Height() }
	return &wide
}

// Indented is the screen with less width, for lines that are indented so far.
func Indented(s *Screen, columns int) *Screen {
	narrow := *s
	narrow.size = func() (int, int) {
		width, height := s.size()
		if width > 0 {
			width = max(1, width-columns)
		}
		return width, height
	}
	return &narrow
}
