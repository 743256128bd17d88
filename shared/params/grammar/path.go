package grammar

import (
	"errors"
	"path"
	"strings"
)

// Limits of paths: the longest that NFSv3 mounts (RFC 1813, MNTPATHLEN), the longest
// file name that Linux takes, and the longest systemd unit name less its drop-in suffix.
const (
	maxPath      = 1024
	maxComponent = 255
	maxUnitName  = 250
)

// pathCharacters is what an absolute path may contain. Narrower than Linux: the
// path is written into /etc/exports and a systemd unit, where white space,
// commas, quotes, %, #, \ and parentheses mean something else.
const pathCharacters = "/.-_+@~" +
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// AbsolutePath accepts a directory of a node: absolute, clean (no "..", no "//",
// no slash at its end), not / itself, at most 1024 bytes of ASCII letters,
// digits and . _ - + @ ~.
func AbsolutePath(s string) (string, error) {
	if s == "" {
		return "", errEmpty
	}
	if !strings.HasPrefix(s, "/") {
		return "", problem(s, "is not an absolute path: it has to begin with /")
	}
	if s == "/" {
		return "", errors.New(`is "/", the root directory; expected a directory below it`)
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(pathCharacters, r) }); i >= 0 {
		r := []rune(s[i:])[0]
		if what := unwanted(r); what != "" {
			return "", problem(s, "holds %s", what)
		}
		return "", problem(s, "holds %q; a path may hold letters, digits and . _ - + @ ~", r)
	}
	if len(s) > maxPath {
		return "", problem(s, "has %d bytes; a path that is mounted or exported may have %d", len(s), maxPath)
	}
	if err := cleanComponents(s, s[1:]); err != nil {
		return "", err
	}
	return s, nil
}

// WithoutEmptyParts is a path without redundant slashes: one at its end, and
// one beside another.
func WithoutEmptyParts(s string) string {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	clean := strings.Join(parts, "/")
	if strings.HasPrefix(s, "/") {
		return "/" + clean
	}
	return clean
}

// cleanComponents wants each part between slashes to be a plain file name.
func cleanComponents(whole, rest string) error {
	for component := range strings.SplitSeq(rest, "/") {
		switch {
		case component == "":
			return problem(whole, "has an empty part (// or a slash at the end); write %s", Show(path.Clean(whole)))
		case component == "." || component == "..":
			return problem(whole, "has a part %q; write the path without it", component)
		case len(component) > maxComponent:
			return problem(whole, "has a part of %d bytes; a file name may have %d", len(component), maxComponent)
		}
	}
	return nil
}

// DataDirectory accepts an AbsolutePath that others may be given, as a mount point or in a
// container: not a directory that the system needs (see system.go).
func DataDirectory(s string) (string, error) {
	if _, err := AbsolutePath(s); err != nil {
		return "", err
	}
	if why := SystemDirectory(s); why != "" {
		return "", problem(s, "%s; choose a directory of its own, such as /volume or /srv/nfs", why)
	}
	return s, nil
}

// MountPath accepts a DataDirectory that a volume may be mounted on: it is short enough
// for the name of its systemd mount unit.
func MountPath(s string) (string, error) {
	if _, err := DataDirectory(s); err != nil {
		return "", err
	}
	if n := unitNameLength(s); n > maxUnitName {
		return "", problem(s, "makes a systemd unit name of %d bytes; at most %d are possible, choose a shorter path", n, maxUnitName)
	}
	return s, nil
}

// unitNameLength is the length of the mount unit's name for a clean absolute path
// (systemd.unit(5), string escaping): a slash becomes one byte, and what is not
// a letter, digit, _ or . four, as is a dot in front.
func unitNameLength(s string) int {
	n := len(".mount")
	for i, r := range s[1:] {
		switch {
		case r == '.' && i == 0, strings.ContainsRune("-+@~", r):
			n += len(`\x00`)
		default:
			n++
		}
	}
	return n
}

// PackagePath accepts the path of a file in the VNF package and returns it
// without a leading "./": relative, inside the package (no ".."), with slashes, no
// control characters, at most 1024 bytes. Blanks inside are allowed.
func PackagePath(s string) (string, error) {
	if s == "" {
		return "", errEmpty
	}
	if strings.HasPrefix(s, "/") {
		return "", problem(s, "is absolute; expected the path of a file inside the VNF package, relative to its root")
	}
	if strings.Contains(s, "://") {
		return "", problem(s, "is a URL; expected the path of a file inside the VNF package")
	}
	for _, r := range s {
		if r == '\\' {
			return "", problem(s, `holds a backslash; separate directories by /`)
		}
		if what := unwanted(r); what != "" && r != ' ' {
			return "", problem(s, "holds %s", what)
		}
	}
	if len(s) > maxPath {
		return "", problem(s, "has %d bytes; at most %d are allowed", len(s), maxPath)
	}
	rest := strings.TrimPrefix(s, "./")
	if err := cleanComponents(s, rest); err != nil {
		return "", err
	}
	return rest, nil
}

// Under reports whether the clean path child is parent or lies below it.
func Under(child, parent string) bool {
	return child == parent || strings.HasPrefix(child, parent+"/")
}
