package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAnswer(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	written := time.Unix(1, 0)
	write := func(content string, at time.Time) {
		if err := errors.Join(os.WriteFile(program, []byte(content), 0o700), os.Chtimes(program, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	failure := errors.New("no answer")
	var a answer
	for _, c := range []struct {
		what, given string
		before      func()
		lasts       bool
		err         error
		asked       bool
	}{
		{"a program that is not installed", "", nil, true, failure, true},
		{"a first answer", "", func() { write("", written) }, true, nil, true},
		{"the same program", "", nil, true, nil, false},
		{"something else that decides it", "other", nil, true, nil, true},
		{"a program that is replaced", "other", func() {
			if err := os.Rename(program, program+".before"); err != nil {
				t.Fatal(err)
			}
			write("", written)
		}, true, nil, true},
		{"a program that is written", "other", func() { write("", written.Add(time.Second)) }, true, nil, true},
		{"a program that is longer", "other", func() { write("longer", written.Add(time.Second)) }, true, nil, true},
		{"an answer of long ago", "other", func() { a.at = a.at.Add(-lastingAnswer) }, true, nil, true},
		{"a failure", "failing", nil, true, failure, true},
		{"after a failure", "failing", nil, false, nil, true},
		{"after an answer that does not last", "failing", nil, true, nil, true},
		{"the same again", "failing", nil, true, nil, false},
	} {
		if c.before != nil {
			c.before()
		}
		asked := false
		// A program is looked for below /usr/local/sbin first.
		said, err := a.get("../../.."+program, c.given, func() (string, bool, error) {
			asked = true
			return "about " + c.given, c.lasts, c.err
		})
		if asked != c.asked || !errors.Is(err, c.err) || said != "about "+c.given {
			t.Errorf("%s: asked: %t, want %t; %q, %v", c.what, asked, c.asked, said, err)
		}
	}
}
