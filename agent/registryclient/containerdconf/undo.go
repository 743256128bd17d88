package containerdconf

import (
	"bytes"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// UnsetConfigPath returns the content of config.toml as it was before SetConfigPath,
// with what others have changed since; nil where SetConfigPath made the file and
// nothing else is in it. A config_path that is not SetConfigPath's stays. All else is
// as it was, which is proved; where it cannot be, content is returned as it is.
func UnsetConfigPath(content []byte, v Version) ([]byte, error) {
	c, err := Read(content, v)
	if err != nil {
		return nil, err
	}
	e, err := edited(content, []string{"plugins", c.plugin, "registry", key})
	if err != nil {
		return nil, err
	}
	for _, way := range e.back() {
		text := way.edit.apply(content)
		if !proved(content, text, e.path, way.leaves) {
			continue
		}
		if isMade(text) {
			return nil, nil
		}
		return text, nil
	}
	return content, nil
}

// back are the edits that may undo one of SetConfigPath, the most thorough first.
func (e *editor) back() []undo {
	n := e.setting()
	switch {
	case n == nil:
		return nil
	case n.inline:
		return e.inlineBack()
	}
	end := lineEnd(e.content, n.end)
	note, ours := strings.CutPrefix(string(e.content[n.end:end]), " "+marker)
	if !ours {
		return nil
	}
	if old, ok := strings.CutPrefix(note, was); ok {
		return valueBack(n, old)
	}
	if n.text != Directory {
		return nil
	}
	line := edit{first: e.before(n.first), end: end}
	if line.first == 0 { // the file's first line goes with its own end
		line.end += len(eol(e.content)) * min(1, len(e.content)-end)
	}
	return append(e.tableBack(n, end), undo{edit: line})
}

// undo is an edit, and what config_path is after it.
type undo struct {
	edit   edit
	leaves string
}

// valueBack is the value that stands behind the marker, of which the rest of the
// line follows.
func valueBack(n *node, old string) []undo {
	p := unstable.Parser{}
	p.Reset([]byte("x = " + old))
	if !p.NextExpression() || p.Expression().Kind != unstable.KeyValue || p.Expression().Value().Kind != unstable.String {
		return nil
	}
	value := p.Expression().Value()
	raw, text := string(p.Raw(value.Raw)), string(value.Data)
	if n.text != firstOf(text) {
		return nil
	}
	end := n.end + len(" "+marker+was) + len(raw)
	return []undo{{edit{int(n.value.Offset), end, raw}, text}}
}

// tableBack is the table that has the marker, with the setting and with the empty line
// before it.
func (e *editor) tableBack(setting *node, end int) []undo {
	for i := range e.nodes {
		n := &e.nodes[i]
		if n.kind != unstable.Table || !slices.Equal(n.path, e.path[:len(e.path)-1]) {
			continue
		}
		if !strings.HasSuffix(string(e.content[n.end:lineEnd(e.content, n.end)]), "] "+marker) || e.before(setting.first) != lineEnd(e.content, n.end) {
			continue
		}
		first := e.before(n.first)
		if e.before(first) < first && len(bytes.TrimSpace(e.content[e.before(first):first])) == 0 {
			first = e.before(first)
		}
		return []undo{{edit: edit{first: first, end: end}}}
	}
	return nil
}

// before is the end of the line before the one that holds the byte, 0 where it is the first.
func (e *editor) before(at int) int {
	newline := bytes.LastIndexByte(e.content[:at], '\n')
	if newline < 0 {
		return 0
	}
	if newline > 0 && e.content[newline-1] == '\r' {
		newline--
	}
	return newline
}

// inlineBack are the texts that SetConfigPath puts into inline tables.
func (e *editor) inlineBack() []undo {
	var found []undo
	for _, n := range e.nodes {
		if n.kind != unstable.InlineTable || len(n.path) >= len(e.path) || !slices.Equal(n.path, e.path[:len(n.path)]) {
			continue
		}
		text := " " + inlined(e.path[len(n.path):], Directory)
		for _, ours := range []string{text + ",", text + " "} {
			if strings.HasPrefix(string(e.content[n.end:]), ours) {
				found = append(found, undo{edit: edit{first: n.end, end: n.end + len(ours)}})
			}
		}
	}
	return found
}

// isMade says that nothing is in the file but what SetConfigPath puts into a new one.
func isMade(content []byte) bool {
	rest, ours := strings.CutPrefix(string(content), made)
	_, version, _ := strings.Cut(rest, "version = ")
	return ours && strings.HasPrefix(rest, "version = ") && strings.Trim(version, "123\n") == ""
}
