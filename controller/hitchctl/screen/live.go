package screen

import (
	"fmt"
	"io"
	"strings"
)

// Live is a display of several lines that is redrawn in place. Only for a TTY.
type Live struct {
	screen *Screen
	drawn  int
}

// Live begins a display at the cursor. Done must follow.
func (s *Screen) Live() *Live {
	_, _ = io.WriteString(s.Writer, hideCursor)
	return &Live{screen: s}
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	toLineEnd  = "\x1b[K"
	toEnd      = "\x1b[J"
)

// Draw replaces what was drawn. The lines must fit the screen's width; what is
// too much for its height is left out at the end, and said.
func (l *Live) Draw(lines []string) {
	if limit := l.screen.Height() - 1; limit > 0 && len(lines) > limit {
		more := fmt.Sprintf("and %d more lines", len(lines)-limit+1)
		lines = append(lines[:limit-1:limit-1], l.screen.Paint(Faint, more))
	}
	var b strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	b.WriteString("\r")
	for _, line := range lines {
		b.WriteString(safe(line) + toLineEnd + "\n")
	}
	b.WriteString(toEnd)
	l.drawn = len(lines)
	_, _ = io.WriteString(l.screen.Writer, b.String())
}

// Done leaves the last drawing and gives the cursor back.
func (l *Live) Done() { _, _ = io.WriteString(l.screen.Writer, showCursor) }
