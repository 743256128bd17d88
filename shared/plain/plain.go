// Package plain makes text of other machines and people harmless where it is read: it can steer
// no terminal, hide no part of a line, and break no YAML.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// unsafe says that a character does something instead of being shown: control characters but for
// line break and tab, marks that change the direction or the joining of others, and bytes that
// are no character.
func unsafe(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f, r == '\n', r == '\t':
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError || r&0xfffe == 0xfffe
}

// Text is the text with ? in the place of each character that does something.
func Text(text string) string {
	if strings.IndexFunc(text, unsafe) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unsafe(r) {
			return '?'
		}
		return r
	}, text)
}

// Line is Text on one line: runs of white space become one space.
func Line(text string) string {
	return Text(strings.Join(strings.Fields(text), " "))
}

// Strings makes every text in what v points to a Text, and says whether one was not.
func Strings(v any) bool { return walk(reflect.ValueOf(v)) }

func walk(v reflect.Value) (changed bool) {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && walk(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			changed = walk(v.Field(i)) || changed
		}
	case reflect.Slice:
		for i := range v.Len() {
			changed = walk(v.Index(i)) || changed
		}
	case reflect.String:
		if text := v.String(); v.CanSet() && Text(text) != text {
			v.SetString(Text(text))
			return true
		}
	}
	return changed
}

// Writer is w, which gets a Text of each piece.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if bytes.IndexFunc(p, unsafe) < 0 {
		return w.Writer.Write(p)
	}
	if _, err := io.WriteString(w.Writer, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// JSON is a JSON text with the same values, in which each character that does something is
// escaped.
func JSON(text []byte) []byte {
	if bytes.IndexFunc(text, unsafe) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
