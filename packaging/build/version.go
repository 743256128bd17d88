package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// described is what `git describe --tags --always --dirty` prints for a commit with a tag
// behind it.
var described = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(-rc\.\d+)?(-\d+-g[0-9a-f]+)?(-dirty)?$`)

// packageVersion is the version of a build as dpkg and rpm order it: v1.2.0-rc.1, v1.2.0,
// v1.2.0-7-g784fea1 and v1.2.1 in this order. A build without a tag comes before every
// release, by its time.
func packageVersion(build string, at time.Time) string {
	m := described.FindStringSubmatch(build)
	if m == nil {
		rest := regexp.MustCompile(`[^0-9A-Za-z.]+`).ReplaceAllString(build, ".")
		return fmt.Sprintf("0.0.0~%s.%s", at.Format("20060102150405"), rest)
	}
	version := m[1] + strings.Replace(m[2], "-", "~", 1)
	if after := strings.Trim(m[3]+m[4], "-"); after != "" {
		version += "+" + strings.ReplaceAll(after, "-", ".")
	}
	return version
}
