// Package containerdconf edits the text of containerd's configuration for private
// registries: config_path in config.toml, in each version of its schema, and the hosts.toml
// of a registry. Everything else stays byte for byte the same. It reads and writes no file:
// what containerd makes of its files, its own `config dump` says.
package containerdconf

import (
	"fmt"
	"regexp"
	"strconv"
)

// Version is the part of containerd's version that its configuration depends on.
type Version struct{ Major, Minor int }

var versionPattern = regexp.MustCompile(`(?:^|[\s"v])(\d{1,3})\.(\d{1,3})(?:[.\s~+"-]|$)`)

// ParseVersion reads a version alone (1.6.20~ds1, v2.1.4) or the line that
// `containerd --version` prints.
func ParseVersion(text string) (Version, error) {
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("no version of containerd in %q", text)
	}
	major, _ := strconv.Atoi(m[1]) // digits, by the pattern
	minor, _ := strconv.Atoi(m[2])
	return Version{major, minor}, nil
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// since reports whether v is that version or a later one.
func (v Version) since(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}
