package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/nodehitch/nodehitch/shared/plain"
)

// Clean makes text safe and on one line.
func Clean(text string) string { return plain.Line(text) }

// CleanLines cleans each line of a text and keeps its indentation.
func CleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		lines[i] = indent + Clean(line)
	}
	return strings.Join(lines, "\n")
}

// Width is the number of columns that text takes: East Asian wide characters two,
// combining marks none.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Truncate is text in at most limit columns, with an ellipsis where something is
// cut off.
func (s *Screen) Truncate(text string, limit int) string {
	if limit <= 0 || Width(text) <= limit {
		return text
	}
	ellipsis := s.Symbol("…", "~")
	return strings.TrimRight(cut(text, limit-1), " ") + ellipsis
}

// cut is as much of text as fits.
func cut(text string, limit int) string {
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n > limit {
			return text[:i]
		}
	}
	return text
}

// wordPiece is how a word begins that is too long for a line: up to a slash where
// there is one not too early, so that paths and pointers stay readable.
func wordPiece(word string, limit int) string {
	piece := cut(word, limit)
	if piece == "" {
		_, size := utf8.DecodeRuneInString(word)
		return word[:size]
	}
	if slash := strings.LastIndexByte(piece, '/') + 1; slash > len(piece)/3 {
		return piece[:slash]
	}
	return piece
}

// Wrap breaks text into lines of at most limit columns, between words, and within a word
// that is longer. A command, in backticks, is never broken: a shell would run each of its
// lines. If it is longer than a line, the terminal wraps it. A limit of 0 is none.
func Wrap(text string, limit int) []string { return wrap(units(text), text, limit) }

// wrapWithin is Wrap without the exception: a command longer than a line is broken.
func wrapWithin(text string, limit int) []string {
	var short []string
	for _, unit := range units(text) {
		if Width(unit) > limit {
			short = append(short, strings.Fields(unit)...)
		} else {
			short = append(short, unit)
		}
	}
	return wrap(short, text, limit)
}

// units are the words of a text. A command in backticks is one, with what adheres to it.
func units(text string) []string {
	words := strings.Fields(text)
	if strings.Count(text, "`")%2 == 1 {
		return words // a backtick that ends nothing
	}
	var list []string
	inside := false
	for _, word := range words {
		if inside {
			list[len(list)-1] += " " + word
		} else {
			list = append(list, word)
		}
		inside = inside != (strings.Count(word, "`")%2 == 1)
	}
	return list
}

func wrap(units []string, text string, limit int) []string {
	if limit <= 0 || Width(text) <= limit {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, unit := range units {
		if line != "" && Width(line)+1+Width(unit) <= limit {
			line += " " + unit
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for Width(unit) > limit && !strings.Contains(unit, " ") {
			piece := wordPiece(unit, limit)
			lines, unit = append(lines, piece), unit[len(piece):]
		}
		line = unit
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
