package screen

import (
	"io"
	"regexp"
	"strings"

	"github.com/nodehitch/nodehitch/shared/plain"
)

// Style is how a piece of text looks where colours are allowed.
type Style string

// The styles, by what they mean.
const (
	Normal  Style = ""
	Good    Style = "32"   // done, as desired
	Bad     Style = "31;1" // failed
	Waiting Style = "33"   // on its way, or not known
	Faint   Style = "2"    // beside the point
	Strong  Style = "1"    // headings
)

// Paint is text in a style, or just text if the screen has no colours.
func (s *Screen) Paint(style Style, text string) string {
	if !s.Color || style == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// painted is what Paint writes. Text of others that has the same gets colours, and nothing else.
var painted = regexp.MustCompile("\x1b\\[(?:0|32|31;1|33|2|1)m")

// safe is text that steers the terminal only as Paint does.
func safe(text string) string {
	var b strings.Builder
	for {
		at := painted.FindStringIndex(text)
		if at == nil {
			break
		}
		b.WriteString(plain.Text(text[:at[0]]))
		b.WriteString(text[at[0]:at[1]])
		text = text[at[1]:]
	}
	b.WriteString(plain.Text(text))
	return b.String()
}

// Write writes text for people and escapes what would do something in a terminal. Text that has to
// be exact goes to the Writer.
func (s *Screen) Write(p []byte) (int, error) {
	if _, err := io.WriteString(s.Writer, safe(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Symbol is one of the two, by what the screen can show.
func (s *Screen) Symbol(unicode, ascii string) string {
	if s.Unicode {
		return unicode
	}
	return ascii
}
