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
	// marker stands behind what SetConfigPath puts into a line, so that people see
	// whose it is.
	marker = "# nodehitch"
	// was stands between the marker and the value that had been there.
	was = ": was "
	// made is the first line of a file that was not there.
	made = "# Made by nodehitch-agent: containerd had no configuration.\n"
)

// SetConfigPath returns the content of config.toml with a config_path in which this
// containerd looks for hosts.toml: Directory where it has none (no content: a new
// file), the first directory of a list of which it would look into none. Where it has
// one, content is returned as it is. All else is as it was, which is proved; a file in
// which it cannot be, or beside whose settings containerd would not start, is an error.
func SetConfigPath(content []byte, v Version) ([]byte, error) {
	if len(strings.TrimSpace(string(content))) == 0 {
		schema := 2
		if v.Major > 1 {
			schema = 3
		}
		return []byte(fmt.Sprintf("%sversion = %d\n\n%s\n%s\n", made, schema, header(v.plugin(schema, nil)), "  "+assigned(Directory))), nil
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
	e, err := edited(content, []string{"plugins", c.plugin, "registry", key})
	if err != nil {
		return nil, err
	}
	for _, edit := range e.ways(directory) {
		if text := edit.apply(content); proved(content, text, e.path, directory) {
			return text, nil
		}
	}
	return nil, fmt.Errorf("config_path of the plugin %s cannot be set in this file; write config_path = %s there", e.path[1], quoted(directory))
}

// firstOf is the directory that takes the place of a path.
func firstOf(path string) string {
	if paths := filepath.SplitList(path); len(paths) > 0 && paths[0] != "" {
		return paths[0]
	}
	return Directory
}

// header is the table of the registries, as a new one is written.
func header(plugin string) string {
	if plugin != "cri" {
		plugin = quoted(plugin)
	}
	return "[plugins." + plugin + ".registry] " + marker
}

// assigned is the setting on a line of its own.
func assigned(directory string) string { return key + " = " + quoted(directory) + " " + marker }

// editor knows where in a text config_path is or may be.
type editor struct {
	content []byte
	nodes   []node
	path    []string // of config_path
}

func edited(content []byte, path []string) (*editor, error) {
	n, err := nodes(content)
	return &editor{content, n, path}, err
}

// edit puts text in the place of the bytes from first to before end.
type edit struct {
	first, end int
	text       string
}

func (e edit) apply(content []byte) []byte {
	return slices.Concat(content[:e.first], []byte(e.text), content[e.end:])
}

// ways are the edits that may set config_path, the best one first. Which of them TOML
// allows beside what is in the file, the proof decides.
func (e *editor) ways(directory string) []edit {
	var found []edit
	if n := e.setting(); n != nil {
		return append(found, e.instead(n, directory))
	}
	for depth := len(e.path) - 1; depth > 0; depth-- {
		for i := range e.nodes {
			n := &e.nodes[i]
			switch {
			case n.kind == unstable.InlineTable && slices.Equal(n.path, e.path[:depth]):
				found = append(found, e.within(n, e.path[depth:], directory))
			case n.kind == unstable.Table && depth == len(e.path)-1 && slices.Equal(n.path, e.path[:depth]):
				indent := indentAt(e.content, n.first) + "  "
				found = append(found, e.below(n, indent+assigned(directory)))
			case n.kind == unstable.KeyValue && !n.inline && e.dotted(n, depth):
				found = append(found, e.beside(n, depth, directory))
			}
		}
	}
	return append(found, e.table(directory))
}

// setting is where config_path is set, nil if it is not.
func (e *editor) setting() *node {
	for i := range e.nodes {
		if n := &e.nodes[i]; n.kind == unstable.KeyValue && slices.Equal(n.path, e.path) {
			return n
		}
	}
	return nil
}

// instead is another value, with the old one behind the marker.
func (e *editor) instead(n *node, directory string) edit {
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

// within is the setting as the first of an inline table. No comment may stand there.
func (e *editor) within(n *node, rest []string, directory string) edit {
	text := " " + inlined(rest, directory) + ","
	if after := strings.TrimLeft(string(e.content[n.end:]), " \t\r\n"); strings.HasPrefix(after, "}") {
		text = " " + inlined(rest, directory) + " "
	}
	return edit{n.end, n.end, text}
}

// inlined is the setting below the keys that are not there yet.
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

// below is a line after the one that holds the node.
func (e *editor) below(n *node, line string) edit {
	at := lineEnd(e.content, n.end)
	return edit{at, at, eol(e.content) + line}
}

// dotted says whether the node's dotted key, and not a header, makes the table that is
// the first depth names of the path.
func (e *editor) dotted(n *node, depth int) bool {
	before := len(n.path) - len(n.keys)
	return before < depth && depth < len(n.path) && slices.Equal(n.path[:depth], e.path[:depth])
}

// beside is the setting with a dotted key that begins as that of the node.
func (e *editor) beside(n *node, depth int, directory string) edit {
	last := n.keys[depth-(len(n.path)-len(n.keys))-1]
	line := indentAt(e.content, n.first) + string(e.content[n.first:ends(last)])
	for _, name := range e.path[depth : len(e.path)-1] {
		if strings.Contains(name, ".") {
			name = quoted(name)
		}
		line += "." + name
	}
	return e.below(n, line+"."+assigned(directory))
}

// table is the setting in a table of its own at the end.
func (e *editor) table(directory string) edit {
	newline := eol(e.content)
	at := len(strings.TrimSuffix(strings.TrimSuffix(string(e.content), "\n"), "\r"))
	return edit{at, at, newline + newline + header(e.path[1]) + newline + "  " + assigned(directory)}
}
