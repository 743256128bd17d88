package packaging

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// listFiles lists what is on the file systems $0, $1 …: of a directory its mode and owner,
// of anything else also its size, its target and the time of the last change of its inode.
// Every write moves that time, and no program can set it. The package manager
// says what belongs to a package. The journal is written all the time, and
// systemd gives services folders for their temporary files.
const listFiles = `{ find "$0" "$@" -xdev \( -path '` + lists + `*' -o -path /var/log/journal -o -path '*/tmp/systemd-private-*' \) -prune -o -type d -printf 'file %p\t%M %U:%G\n' -o -printf 'file %p\t%M %U:%G %s %C@ %l\n' || :
	for list in /var/lib/dpkg/info/nodehitch-*.list /var/lib/dpkg/info/hitchctl*.list /var/lib/dpkg/info/python3-nodehitch-*.list; do
		[ ! -e "$list" ] || sed 's/^/owned /' "$list"
	done
	! command -v rpm >/dev/null || rpm --query --all --list 'nodehitch-*' hitchctl | sed -n 's,^/,owned /,p'; } | LC_ALL=C sort -u `

// lists begins the paths of the lists themselves, which outlive a reboot.
const lists = "/var/tmp/packaging-"

// compareFiles prints the owned files of both lists, and the lines that are only in one.
const compareFiles = `{ cat >` + lists + `after; grep -h '^owned' ` + lists + `before ` + lists + `after || [ $? = 1 ]
	LC_ALL=C diff ` + lists + `before ` + lists + `after | grep '^[<>] file ' || [ $? = 1 ]; }`

// place is a part of a machine's disks.
type place string

// The places, as the table has them.
const (
	ofPackage  place = "of the package"
	ofManager  place = "of the package manager"
	ofUnits    place = "links of units"
	ofOther    place = "of an unpackaged agent"
	ofAccounts place = "accounts"
	ofState    place = "configuration and state"
	ofVolumes  place = "on volumes"
	elsewhere  place = "elsewhere"
)

var places = []place{ofPackage, ofManager, ofUnits, ofOther, ofAccounts, ofState, ofVolumes, elsewhere}

// beginnings are those of the paths in a place; the last that fits counts.
var beginnings = []struct {
	path  string
	place place
}{
	{"/var/lib/nodehitch", ofState}, {"/etc/nodehitch", ofState},
	{"/var/lib/dpkg/", ofManager}, {"/var/lib/apt/", ofManager}, {"/var/cache/apt/", ofManager}, {"/var/cache/debconf/", ofManager},
	{"/var/log/apt/", ofManager}, {"/var/log/dpkg.log", ofManager},
	{"/usr/lib/sysimage/rpm/", ofManager}, {"/var/lib/dnf/", ofManager}, {"/var/cache/dnf/", ofManager}, {"/var/log/dnf", ofManager}, {"/var/log/hawkey.log", ofManager}, {repository, ofManager},
	{"/etc/passwd", ofAccounts}, {"/etc/group", ofAccounts}, {"/etc/shadow", ofAccounts}, {"/etc/gshadow", ofAccounts}, {"/etc/.pwd.lock", ofAccounts},
	{"/etc/systemd/system/multi-user.target.wants/nodehitch-", ofUnits}, {"/etc/systemd/system/sockets.target.wants/nodehitch-", ofUnits},
	{"/etc/systemd/system/nodehitch-", ofUnits}, {"/var/lib/systemd/deb-systemd-helper-", ofUnits},
	{install.Binary, ofOther}, {"/etc/systemd/system/" + install.Unit, ofOther},
}

// change is what happened to the files of a place.
type change struct{ added, written, removed []string }

func (c change) none() bool { return len(c.added)+len(c.written)+len(c.removed) == 0 }

// changes are those of each place.
type changes map[place]*change

// in is the change in a place.
func (c changes) in(p place) change {
	if c[p] == nil {
		return change{}
	}
	return *c[p]
}

// parseChanges reads what compareFiles printed.
func parseChanges(t *testing.T, text string) changes {
	t.Helper()
	owned, before, after := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		path, _, _ := strings.Cut(strings.TrimPrefix(rest, "file "), "\t")
		switch kind {
		case "owned": // rpm lists no folder that a package only has files in
			for ; path != "/" && !owned[path]; path = filepath.Dir(path) {
				owned[path] = true
			}
		case "<":
			before[path] = true
		case ">":
			after[path] = true
		default:
			t.Fatalf("the comparison of the machine's files has %q", line)
		}
	}
	all := changes{}
	for path := range before {
		c := all.of(path, owned)
		if after[path] {
			c.written = append(c.written, path)
		} else {
			c.removed = append(c.removed, path)
		}
	}
	for path := range after {
		if c := all.of(path, owned); !before[path] {
			c.added = append(c.added, path)
		}
	}
	return all
}

// of is the change of the place that a path is in.
func (c changes) of(path string, owned map[string]bool) *change {
	p := elsewhere
	for _, b := range beginnings {
		if strings.HasPrefix(path, b.path) {
			p = b.place
		}
	}
	switch {
	case strings.HasPrefix(path, volume):
		p = ofVolumes
	case owned[path]:
		p = ofPackage
	}
	if c[p] == nil {
		c[p] = &change{}
	}
	return c[p]
}

// record writes the changes into the table: how many files were added, written and removed.
func (c changes) record(r *results.Case) {
	changed := false
	for _, p := range places {
		if in := c.in(p); !in.none() {
			changed = true
			r.Figure("files "+string(p), "+%d ~%d -%d", len(in.added), len(in.written), len(in.removed))
		}
	}
	if !changed {
		r.Figure("files", "none has changed")
	}
}

// onlyIn fails the test if anything changed in other places.
func (c changes) onlyIn(t *testing.T, allowed ...place) {
	t.Helper()
	for _, p := range places {
		if in := c.in(p); !slices.Contains(allowed, p) && !in.none() {
			t.Errorf("files %s have changed: added %q, written %q, removed %q", p, in.added, in.written, in.removed)
		}
	}
}
