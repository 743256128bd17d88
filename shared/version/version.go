// Package version says which build of nodehitch a binary is.
package version

import (
	"cmp"
	"errors"
	"io"
	"regexp"
	"strings"
)

// stamp is set by the linker (see Makefile), to the version between nodehitch-version< and
// >. It stands in a program as it is, so that Of finds it in one for another machine,
// which cannot be run.
var stamp string

// Version is that of this build; "devel" in a plain go build.
var Version = inside(stamp)

func inside(stamp string) string {
	_, version, _ := strings.Cut(stamp, "<")
	return cmp.Or(strings.TrimSuffix(version, ">"), "devel")
}

// Grammar is what a version is made of.
const Grammar = `[0-9A-Za-z._+~:/@-]{1,64}`

var stamped = regexp.MustCompile(`nodehitch-version<(` + Grammar + `)>`)

// longest is more than a stamp has.
const longest = 128

// Of is the version of a program of nodehitch by its content, "" for any other. It reads no
// further than it has to, and keeps a small part in memory, whatever the size.
func Of(program io.Reader) (string, error) {
	part, kept := make([]byte, 64<<10), 0
	for {
		n, err := io.ReadFull(program, part[kept:])
		read := part[:kept+n]
		if found := stamped.FindSubmatch(read); found != nil {
			return string(found[1]), nil
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return "", nil
		case err != nil:
			return "", err
		}
		kept = copy(part, read[len(read)-longest:]) // a stamp may begin there
	}
}
