package strict

import (
	"fmt"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// What a YAML stream may have, beside jsontree.MaxValues values. Every file that this project
// reads has fewer than a hundredth of it.
const (
	// maxDocuments bounds what each document costs beside its values.
	maxDocuments = 1000
	// maxBesideAliases is how many values there may be in a stream with aliases: the parser
	// bounds what aliases become by a multiple of it.
	maxBesideAliases = 1000
	// maxExpanded is how many bytes of text the values may have once aliases are resolved.
	maxExpanded = 2 << 20
)

// tooLarge says why a stream could take far more memory than its text, "" if it cannot. It is
// asked before the parser, which makes a tree of the whole stream. It counts what each value
// needs in front of it or behind it, also within quotes: rather too much.
func tooLarge(data []byte) string {
	values, aliases := 0, 0
	for i, c := range data {
		switch c {
		case ',', '[', '{':
			values++
		case '-', '?', ':', '.':
			if i+1 == len(data) || isBlank(data[i+1]) {
				values++
			}
		case '*':
			if i > 0 && i+1 < len(data) && !isWord(data[i-1]) && isWord(data[i+1]) {
				aliases++
			}
		}
	}
	switch {
	case values > jsontree.MaxValues:
		return fmt.Sprintf("has more than %d values", jsontree.MaxValues)
	case aliases > 0 && values > maxBesideAliases:
		return fmt.Sprintf("has aliases (such as *name) and more than %d values; write out what they stand for", maxBesideAliases)
	}
	return ""
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// measured is what a decoded value takes with its aliases resolved. It stops at what is
// too much.
type measured struct {
	bytes   int
	tooDeep bool
}

func (m *measured) add(value any, depth int) {
	if m.bytes > maxExpanded || m.tooDeep {
		return
	}
	m.bytes += 8 // of a number, say
	switch v := value.(type) {
	case string:
		m.bytes += len(v)
	case []any:
		m.tooDeep = depth >= jsontree.MaxDepth
		for _, item := range v {
			m.add(item, depth+1)
		}
	case map[any]any:
		m.tooDeep = depth >= jsontree.MaxDepth
		for name, item := range v {
			m.add(name, depth+1)
			m.add(item, depth+1)
		}
	}
}

// checkSize is a fault.List if a decoded document is too deep or too large.
func checkSize(value any) error {
	var m measured
	m.add(value, 0)
	switch {
	case m.tooDeep:
		return fault.List{fault.Root.Fault(fmt.Sprintf("nests lists and objects deeper than %d levels", jsontree.MaxDepth))}
	case m.bytes > maxExpanded:
		return fault.List{fault.Root.Fault(fmt.Sprintf("has more than %d bytes once its aliases are resolved", maxExpanded))}
	}
	return nil
}
