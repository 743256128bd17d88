// Package nearest finds what somebody meant who misspelt a name.
package nearest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Unknown refuses a name that is none of the known ones, with the one that is probably meant
// or, if none is near, with all of them. what says what the name is of, in the singular.
func Unknown(what, name string, known []string) error {
	return fmt.Errorf("there is no %s %q%s", what, name, Hint(name, known))
}

// Hint stands behind the refusal of a name: the known one that is probably meant or, if none
// is near, all of them.
func Hint(name string, known []string) string {
	if near := Name(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; expected " + strings.Join(known, ", ")
}

// UnknownMember says that an object has no member of a name, and which one is probably meant
// or, if none is near, which ones it may have.
func UnknownMember(name string, known iter.Seq[string]) string {
	names := slices.Sorted(known)
	if len(names) == 0 {
		return "is not known here; nothing is"
	}
	for _, k := range names {
		if strings.EqualFold(k, name) {
			return "is not known here; did you mean " + k + "? Names are case sensitive"
		}
	}
	if near := Name(name, names); near != "" {
		return "is not known here; did you mean " + near + "?"
	}
	return "is not known here; known names are " + strings.Join(names, ", ")
}

// Name is the known name that name is probably a misspelling of, or "" if none is near.
// Case, hyphens and underscores make no difference.
func Name(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 3
	for _, k := range known {
		if d := distance(Plain(name), Plain(k)); d < least && d <= len(k)/3 {
			best, least = k, d
		}
	}
	return best
}

// Plain takes away what people vary: case, hyphens and underscores.
func Plain(name string) string { return strings.ToLower(separators.Replace(name)) }

var separators = strings.NewReplacer("_", "", "-", "")

// distance is the least number of characters to insert, delete or replace to
// make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
