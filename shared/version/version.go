// Package version says which build of nodehitch a binary is.
package version

import (
	"cmp"
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

// Of is the version of a program of nodehitch by its content, "" for any other.
func Of(program []byte) string {
	found := stamped.FindSubmatch(program)
	if found == nil {
		return ""
	}
	return string(found[1])
}
