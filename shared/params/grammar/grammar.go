// Package grammar says what each kind of text in the parameters may look like:
// paths, networks, servers, names, ports. Both sides use it, for whatever reaches
// a file or a command on a node is checked where it enters and where it is used.
//
// Every function reports one problem, as a sentence that can follow a JSON pointer.
// It quotes the text, shortened and without what looks like a password; text that
// is itself a secret is not quoted at all (Opaque).
package grammar

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shownLength is how many characters of a text a message repeats.
const shownLength = 80

var userinfo = regexp.MustCompile(`\S+@`)

// Show is the text as a message may repeat it: quoted, shortened, and without
// anything before an @, which could be a password.
func Show(s string) string {
	s = userinfo.ReplaceAllString(s, "[redacted]@")
	if utf8.RuneCountInString(s) > shownLength {
		s = string([]rune(s)[:shownLength]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// problem is an error about the text s: its quotation, then what is wrong.
func problem(s, format string, args ...any) error {
	return fmt.Errorf("%s %s", Show(s), fmt.Sprintf(format, args...))
}

var errEmpty = errors.New("is empty")

// Opaque accepts a text that is passed on as it is, such as a proxy: not empty,
// no white space, no control characters, at most 4096 bytes. The error does not
// repeat the text.
func Opaque(s string) (string, error) {
	if s == "" {
		return "", errEmpty
	}
	if len(s) > 4096 {
		return "", fmt.Errorf("has %d bytes; at most 4096 are taken", len(s))
	}
	for _, r := range s {
		if what := unwanted(r); what != "" {
			return "", fmt.Errorf("holds %s; expected text without white space and control characters", what)
		}
	}
	return s, nil
}

// NoProxy accepts a list of what is reached without a proxy, separated by commas, and
// returns it without the blanks around them and without empty entries. It is Opaque besides.
func NoProxy(s string) (string, error) {
	var list []string
	for entry := range strings.SplitSeq(s, ",") {
		if entry = strings.Trim(entry, " \t"); entry != "" {
			list = append(list, entry)
		}
	}
	return Opaque(strings.Join(list, ","))
}

// Label accepts a text for people, such as a VIM's name: printable, 1 to 255
// characters, no white space at its ends.
func Label(s string) (string, error) {
	if s == "" {
		return "", errEmpty
	}
	if n := utf8.RuneCountInString(s); n > 255 {
		return "", problem(s, "has %d characters; at most 255 are allowed", n)
	}
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return "", problem(s, "holds the character %U, which is not printable", r)
		}
	}
	if strings.TrimSpace(s) != s {
		return "", problem(s, "begins or ends with white space")
	}
	return s, nil
}

// ResourceName accepts the name of a Heat resource: a connection point, a
// scaling group, a volume. It is a Label without a slash, as in Heat.
func ResourceName(s string) (string, error) {
	if strings.Contains(s, "/") {
		return "", problem(s, "holds a slash; expected the name of a Heat resource, which has none")
	}
	return Label(s)
}

var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}(@[A-Za-z0-9][A-Za-z0-9.-]{0,220})?$`)

// UserName accepts the name of a Linux account: 1 to 32 letters, digits and . _ -, with a
// letter or _ first, and for an account of a domain @ and its name. It is a safe path
// component.
func UserName(s string) (string, error) {
	if !userName.MatchString(s) {
		return "", problem(s, "is not a Linux user name: expected 1 to 32 letters, digits, or . _ -, with a letter or _ first, and maybe @ and a domain")
	}
	return s, nil
}

// unwanted names r where it is white space or a control character, else "".
func unwanted(r rune) string {
	switch {
	case unicode.IsSpace(r):
		return "white space"
	case unicode.IsControl(r):
		return fmt.Sprintf("the control character %U", r)
	case unicode.Is(unicode.Cf, r):
		return fmt.Sprintf("the invisible character %U", r)
	case r == utf8.RuneError:
		return "a character that is not UTF-8"
	}
	return ""
}

var subdomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// ObjectName accepts the name of a Kubernetes object such as a PersistentVolume:
// a DNS-1123 subdomain of at most 253 bytes.
func ObjectName(s string) (string, error) {
	if len(s) > 253 || !subdomain.MatchString(s) {
		return "", problem(s, "is not the name of a Kubernetes object: expected at most 253 lower-case letters, digits, - and ., with a letter or digit at each end")
	}
	return s, nil
}
