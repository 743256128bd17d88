package params

import "strings"

// nearest is the known name that name is probably a misspelling of, or "".
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", 3
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d < least && d <= len(k)/3 {
			best, least = k, d
		}
	}
	return best
}

// plain takes away what people vary: case, hyphens and underscores.
func plain(name string) string { return strings.ToLower(separators.Replace(name)) }

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
