package containerdconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

const (
	key = "config_path"
	// marker ends each line that an edit writes, so that people see who wrote it.
	marker = "# nodehitch"
	// was stands between the marker and the previous value.
	was = ": was "
	// newFile is the first line of a file that did not exist.
	newFile = "# Made by nodehitch-agent: containerd had no configuration.\n"
)

// Candidates returns contents of config.toml with this config_path, the best first.
// Each differs from content in nothing else. Which of them containerd reads as meant depends
// on its version, on the version of the file and on the files that it imports: a dump of
// each tells (see Sets). No content is a file that does not exist.
func Candidates(content []byte, v Version, directory string) ([][]byte, error) {
	if len(strings.TrimSpace(string(content))) == 0 {
		schema, plugin := 2, criPlugin
		if v.Major > 1 {
			schema, plugin = 3, imagesPlugin
		}
		return [][]byte{fmt.Appendf(nil, "%sversion = %d\n\n%s\n%s\n", newFile, schema, header(plugin), "  "+assigned(directory))}, nil
	}
	root, err := decode(content)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for _, plugin := range candidatePlugins(root) {
		e, err := newEditor(content, []string{"plugins", plugin, "registry", key})
		if err != nil {
			return nil, err
		}
		for _, edit := range e.candidates(directory) {
			if text := edit.apply(content); onlySets(content, text, e.path, directory) {
				found = append(found, text)
				break
			}
		}
	}
	return found, nil
}

// candidatePlugins are the names of the plugin's table, that of the file's own version first.
func candidatePlugins(root map[string]any) []string {
	switch version, _ := root["version"].(int64); {
	case version > 2:
		return []string{imagesPlugin, criPlugin}
	case version == 2:
		return []string{criPlugin, imagesPlugin}
	}
	return []string{shortName, imagesPlugin, criPlugin}
}

// header is the header of a new table of the registries.
func header(plugin string) string {
	if plugin != shortName {
		plugin = quoted(plugin)
	}
	return "[plugins." + plugin + ".registry] " + marker
}

// assigned is the setting on a line of its own.
func assigned(directory string) string { return key + " = " + quoted(directory) + " " + marker }

// editor knows where in a text config_path is or can be set.
type editor struct {
	content []byte
	nodes   []node
	path    []string // of config_path
}

func newEditor(content []byte, path []string) (*editor, error) {
	n, err := nodes(content)
	return &editor{content, n, path}, err
}

// edit replaces the bytes from first to before end by text.
type edit struct {
	first, end int
	text       string
}

func (e edit) apply(content []byte) []byte {
	return slices.Concat(content[:e.first], []byte(e.text), content[e.end:])
}

// candidates are the edits that may set config_path, the best one first. onlySets decides
// which of them TOML allows in this file.
func (e *editor) candidates(directory string) []edit {
	var found []edit
	if n := e.setting(); n != nil {
		return append(found, e.replaceValue(n, directory))
	}
	for depth := len(e.path) - 1; depth > 0; depth-- {
		for i := range e.nodes {
			n := &e.nodes[i]
			switch {
			case n.kind == unstable.InlineTable && slices.Equal(n.path, e.path[:depth]):
				found = append(found, e.insertInline(n, e.path[depth:], directory))
			case n.kind == unstable.Table && depth == len(e.path)-1 && slices.Equal(n.path, e.path[:depth]):
				indent := indentAt(e.content, n.first) + "  "
				found = append(found, e.insertLine(n, indent+assigned(directory)))
			case n.kind == unstable.KeyValue && !n.inline && e.dotted(n, depth):
				found = append(found, e.insertDotted(n, depth, directory))
			}
		}
	}
	return append(found, e.appendTable(directory))
}

// setting is the node that sets config_path, nil if none does.
func (e *editor) setting() *node {
	for i := range e.nodes {
		if n := &e.nodes[i]; n.kind == unstable.KeyValue && slices.Equal(n.path, e.path) {
			return n
		}
	}
	return nil
}

// replaceValue sets another value and keeps the old one in the comment.
func (e *editor) replaceValue(n *node, directory string) edit {
	old := string(e.content[n.value.Offset:ends(n.value)])
	if strings.Contains(old, "\n") {
		old = quoted("")
	}
	text := quoted(directory)
	if !n.inline {
		text += " " + marker + was + old
	}
	return edit{int(n.value.Offset), ends(n.value), text}
}

// insertInline puts the setting first into an inline table, where TOML allows no comment.
func (e *editor) insertInline(n *node, rest []string, directory string) edit {
	text := " " + inlined(rest, directory) + ","
	if after := strings.TrimLeft(string(e.content[n.end:]), " \t\r\n"); strings.HasPrefix(after, "}") {
		text = " " + inlined(rest, directory) + " "
	}
	return edit{n.end, n.end, text}
}

// inlined is the setting as an inline table, below the keys that do not exist yet.
func inlined(rest []string, directory string) string {
	name := rest[0]
	if strings.Contains(name, ".") {
		name = quoted(name)
	}
	if len(rest) == 1 {
		return name + " = " + quoted(directory)
	}
	return name + " = {" + inlined(rest[1:], directory) + "}"
}

// insertLine inserts a line after the one that contains the node.
func (e *editor) insertLine(n *node, line string) edit {
	at := lineEnd(e.content, n.end)
	return edit{at, at, eol(e.content) + line}
}

// dotted reports whether the node's dotted key, and not a header, creates the table that
// the first depth names of the path lead to.
func (e *editor) dotted(n *node, depth int) bool {
	before := len(n.path) - len(n.keys)
	return before < depth && depth < len(n.path) && slices.Equal(n.path[:depth], e.path[:depth])
}

// insertDotted inserts the setting with a dotted key that begins like that of the node.
func (e *editor) insertDotted(n *node, depth int, directory string) edit {
	last := n.keys[depth-(len(n.path)-len(n.keys))-1]
	line := indentAt(e.content, n.first) + string(e.content[n.first:ends(last)])
	for _, name := range e.path[depth : len(e.path)-1] {
		if strings.Contains(name, ".") {
			name = quoted(name)
		}
		line += "." + name
	}
	return e.insertLine(n, line+"."+assigned(directory))
}

// appendTable puts the setting into a table of its own at the end.
func (e *editor) appendTable(directory string) edit {
	newline := eol(e.content)
	at := len(strings.TrimSuffix(strings.TrimSuffix(string(e.content), "\n"), "\r"))
	return edit{at, at, newline + newline + header(e.path[1]) + newline + "  " + assigned(directory)}
}
