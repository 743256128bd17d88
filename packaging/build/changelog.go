package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// release is a section of CHANGELOG.md.
type release struct {
	version string    // as packageVersion gives it
	date    time.Time // zero: not released
	changes []string
}

var releaseHeading = regexp.MustCompile(`^## v(\d+\.\d+\.\d+(?:-rc\.\d+)?) - (\d{4}-\d{2}-\d{2}|unreleased)$`)

// longestChange keeps a line of Debian's changelog below 80 characters.
const longestChange = 75

// readChangelog reads CHANGELOG.md: the newest release first, which alone may be unreleased.
func readChangelog(text string) (releases []release, err error) {
	for n, line := range strings.Split(text, "\n") {
		last := len(releases) - 1
		switch {
		case strings.HasPrefix(line, "## "):
			var r release
			r, err = newRelease(line)
			if r.date.IsZero() && last >= 0 && err == nil {
				err = errors.New("only the newest release may be unreleased")
			}
			releases = append(releases, r)
		case last < 0 || line == "": // what comes before the releases is for people
		case !strings.HasPrefix(line, "- ") || len(line) > longestChange+2:
			err = fmt.Errorf("expected a change: a dash, a blank and at most %d bytes", longestChange)
		default:
			releases[last].changes = append(releases[last].changes, line[2:])
		}
		if err != nil {
			return nil, fmt.Errorf("CHANGELOG.md:%d: %w: %q", n+1, err, line)
		}
	}
	return releases, nil
}

func newRelease(heading string) (release, error) {
	m := releaseHeading.FindStringSubmatch(heading)
	if m == nil {
		return release{}, errors.New("expected ## vX.Y.Z - YYYY-MM-DD or unreleased")
	}
	r := release{version: strings.Replace(m[1], "-", "~", 1)}
	if m[2] == "unreleased" {
		return r, nil
	}
	var err error
	r.date, err = time.Parse(time.DateOnly, m[2])
	return r, err
}

// forBuild is the changelog of a build: the build itself, also if CHANGELOG.md does not have
// it, and the releases before it.
func forBuild(releases []release, version, build string, at time.Time) []release {
	own := release{version: version, date: at, changes: []string{"This build is no release: " + build + "."}}
	if i := slices.IndexFunc(releases, func(r release) bool { return r.version == version }); i >= 0 {
		own.changes = releases[i].changes
		if date := releases[i].date; !date.IsZero() {
			own.date = date
		}
		releases = releases[i+1:]
	}
	return append([]release{own}, slices.DeleteFunc(slices.Clone(releases), func(r release) bool { return r.date.IsZero() })...)
}

// writeChangelog writes the changelog as nfpm reads it.
func writeChangelog(path string, releases []release) error {
	type change struct {
		Note string `json:"note"`
	}
	type entry struct {
		Version  string         `json:"semver"`
		Date     time.Time      `json:"date"`
		Packager string         `json:"packager"`
		Deb      map[string]any `json:"deb"`
		Changes  []change       `json:"changes"`
	}
	var entries []entry
	for _, r := range releases {
		e := entry{Version: r.version + "-1", Date: r.date, Packager: maintainer,
			Deb: map[string]any{"urgency": "medium", "distributions": []string{"stable"}}}
		for _, note := range r.changes {
			e.Changes = append(e.Changes, change{note})
		}
		entries = append(entries, e)
	}
	text, err := yaml.Marshal(entries)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
