package agentupgrade

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// described is a version as `git describe` prints it: a release, how many commits came after
// it, and what tells builds of one commit apart.
var described = regexp.MustCompile(`^(.+?)(?:-([0-9]+)-g[0-9a-f]{4,40})?(?:-dirty)?$`)

// compareBuilds says which of two builds is newer, as cmp.Compare does. known is false if they
// have no order: a build follows no release, or the builds differ and are the same number of
// commits after the same release.
func compareBuilds(a, b string) (order int, known bool) {
	if a == b {
		return 0, true
	}
	releaseA, afterA, okA := placed(a)
	releaseB, afterB, okB := placed(b)
	order = cmp.Or(semver.Compare(releaseA, releaseB), cmp.Compare(afterA, afterB))
	return order, okA && okB && order != 0
}

// placed is the release that a build follows, and by how many commits.
func placed(build string) (release string, after int, ok bool) {
	parts := described.FindStringSubmatch(build)
	if parts == nil {
		return "", 0, false
	}
	release = "v" + strings.TrimPrefix(parts[1], "v")
	after, _ = strconv.Atoi(parts[2]) // of a number that is too long: the largest
	return release, after, semver.IsValid(release)
}
