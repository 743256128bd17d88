package containerdconf

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

const (
	key = "config_path"
	// marker ends each line that SetConfigPath writes, so that people see who wrote it.
	marker = "# nodehitch"
	// was stands between the marker and the previous value.
	was = ": was "
	// newFile is the first line of a file that did not exist.
	newFile = "# Made by nodehitch-agent: containerd had no configuration.\n"
)

// SetConfigPath returns the content of config.toml with a config_path in which this
// containerd looks for hosts.toml. It writes Directory if none is set (no content: a new
// file), and the first directory of a list if this containerd does not support lists. A
// config_path that works already stays, and content is returned unchanged.
//
// The result is decoded again to verify that nothing else has changed. It is an error if
// no edit passes that check, or if other settings of the file would keep containerd from
// starting with a config_path.
func SetConfigPath(content []byte, v Version) ([]byte, error) {
	if len(strings.TrimSpace(string(content))) == 0 {
		schema := 2
		if v.Major > 1 {
			schema = 3
		}
		return []byte(fmt.Sprintf("%sversion = %d\n\n%s\n%s\n", newFile, schema, header(v.plugin(schema, nil)), "  "+assigned(Directory))), nil
	}
	c, err := Read(content, v)
	if err != nil {
		return nil, err
	}
	if len(c.Directories()) > 0 {
		return content, nil
	}
	if len(c.Legacy) > 0 {
		return nil, fmt.Errorf("%s beside config_path: containerd would not start; move it to hosts.toml and remove it", strings.Join(c.Legacy, " and "))
	}
	directory := firstOf(c.ConfigPath)
	e, err := newEditor(content, []string{"plugins", c.plugin, "registry", key})
	if err != nil {
		return nil, err
	}
	for _, edit := range e.candidates(directory) {
		if text := edit.apply(content); onlySets(content, text, e.path, directory) {
			return text, nil
		}
	}
	return nil, fmt.Errorf("config_path of the plugin %s cannot be set in this file; write config_path = %s there", e.path[1], quoted(directory))
}

// firstOf returns the one directory that replaces a path.
func firstOf(path string) string {
	if paths := filepath.SplitList(path); len(paths) > 0 && paths[0] != "" {
		return paths[0]
	}
	return Directory
}

// header is the header of a new table of the registries.
func header(plugin string) string {
	if plugin != "cri" {
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

// insertLine inserts a line after the one that holds the node.
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
