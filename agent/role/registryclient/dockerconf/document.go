// Package dockerconf edits the text of Docker's configuration files for private registries:
// daemon.json of the engine and config.json of its clients. Everything else stays byte for
// byte the same. It reads and writes no file.
package dockerconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// document is the text of a JSON file, and the same as a tree. After a change of the tree,
// Pack returns the text with that change alone.
type document struct {
	text     []byte
	root     hujson.Value
	settings *hujson.Object // the root's
}

// fresh is the text that a missing or empty file starts with.
const fresh = "{\n}\n"

// parse accepts what Docker accepts: JSON as encoding/json reads it, without comments,
// trailing commas or a byte order mark.
func parse(content []byte) (*document, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		content = []byte(fresh)
	}
	d := &document{text: content}
	if bytes.HasPrefix(content, []byte("\xef\xbb\xbf")) {
		return nil, errors.New("line 1: a byte order mark, which not every Docker takes; save the file as UTF-8 without one")
	}
	if !utf8.Valid(content) {
		return nil, errors.New("the file is not in UTF-8, as JSON is; save it in UTF-8")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, d.syntax(err)
	}
	var err error
	if d.root, err = hujson.Parse(content); err != nil { // its text would quote the file's
		return nil, errors.New("the file is no JSON, and Docker refuses it")
	}
	var ok bool
	if d.settings, ok = d.root.Value.(*hujson.Object); !ok {
		return nil, d.wrong(&d.root, "the file", "an object, { }")
	}
	return d, nil
}

// syntax adds the line to a syntax error.
func (d *document) syntax(err error) error {
	before := d.text
	var s *json.SyntaxError
	if errors.As(err, &s) && s.Offset > 0 && s.Offset <= int64(len(d.text)) {
		before = d.text[:s.Offset-1]
	}
	return fmt.Errorf("line %d: %w; Docker refuses the file: JSON has no comments and no comma before } or ]",
		bytes.Count(before, []byte("\n"))+1, err)
}

// wrong is the error for a value of a kind that Docker refuses. It does not quote the value,
// which may be a secret.
func (d *document) wrong(v *hujson.Value, name, expected string) error {
	kinds := map[hujson.Kind]string{
		'{': "an object", '[': "a list", '"': "a string", '0': "a number", 'n': "null", 't': "true", 'f': "false",
	}
	return fmt.Errorf("line %d: %s is %s, and Docker takes only %s", d.line(v), name, kinds[v.Value.Kind()], expected)
}

// line is the line on which a value begins, counted from 1.
func (d *document) line(v *hujson.Value) int {
	return bytes.Count(d.text[:v.StartOffset], []byte("\n")) + 1
}

// member returns the value of a name in an object, nil if there is none. Docker uses the
// last of two, and in some files ignores case; this refuses both and does not guess.
func (d *document) member(object *hujson.Object, name string) (*hujson.Value, error) {
	var found *hujson.Value
	for i := range object.Members {
		m := &object.Members[i]
		switch key := key(*m); {
		case key == name && found != nil:
			return nil, fmt.Errorf("line %d: %s is there a second time; keep one of them", d.line(&m.Name), name)
		case key == name:
			found = &m.Value
		case object == d.settings && strings.EqualFold(key, name):
			return nil, fmt.Errorf("line %d: %s must be written %s", d.line(&m.Name), key, name)
		}
	}
	return found, nil
}

// checkServers refuses what cannot be a server in an image's name: Docker would refuse the
// entry, or never find it.
func checkServers(servers ...string) error {
	for _, s := range servers {
		if s == "" || !utf8.ValidString(s) || strings.ContainsAny(s, "/ \t\r\n") {
			return fmt.Errorf("server %q is not of the form host or host:port", s)
		}
	}
	return nil
}
