package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/controller/hitchctl/query"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// output is the value of -o.
type output string

const (
	asTable output = "table"
	asWide  output = "wide"
	asName  output = "name"
	asJSON  output = "json"
	asYAML  output = "yaml"
	// asJSONPath begins a format that is a template: jsonpath={.id}.
	asJSONPath = "jsonpath="
	// asColumns begins a format that names columns: custom-columns=ID:.id.
	asColumns = "custom-columns="
)

// forPrograms says that the objects themselves are printed, and nothing else.
func (o output) forPrograms() bool {
	return o == asJSON || o == asYAML || strings.HasPrefix(string(o), asJSONPath)
}

// outputFlag adds -o with a table as its default, the formats for programs, and others.
func outputFlag(cmd *cobra.Command, o *output, others ...output) {
	*o = asTable
	names := []string{string(asTable)}
	for _, f := range append(others, asJSON, asYAML, asJSONPath) {
		names = append(names, string(f))
	}
	cmd.Flags().VarP(&choice{o, names}, "output", "o", "format: "+strings.Join(names, ", "))
	completeFlag(cmd, "output", names...)
}

// columns are those of a format that names them.
func (o output) columns() ([]query.Column, bool) {
	text, is := strings.CutPrefix(string(o), asColumns)
	if !is {
		return nil, false
	}
	columns, _ := query.ParseColumns(text) // Set has read them before
	return columns, true
}

// choice is a flag that takes one of a few values, or a text that begins with one that ends in "=".
type choice struct {
	value *output
	names []string
}

// String is the present value.
func (c *choice) String() string { return string(*c.value) }

// Type is what the help calls the value.
func (c *choice) Type() string { return "format" }

// Set takes one of the values.
func (c *choice) Set(s string) error {
	for _, name := range c.names {
		rest, begins := strings.CutPrefix(s, name)
		var err error
		switch {
		case !begins:
			continue
		case name == asJSONPath:
			_, err = query.ParsePath(rest)
		case name == asColumns:
			_, err = query.ParseColumns(rest)
		case rest != "":
			continue
		}
		if err != nil {
			return err
		}
		*c.value = output(s)
		return nil
	}
	return fmt.Errorf("found %q, expected one of %s", s, strings.Join(c.names, ", "))
}

// encode prints a value for programs.
func (a *app) encode(o output, v any) error {
	text, err := encoded(o, v)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	_, err = a.out.Write(text)
	return err
}

func encoded(o output, v any) ([]byte, error) {
	if template, ok := strings.CutPrefix(string(o), asJSONPath); ok {
		path, err := query.ParsePath(template)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		err = path.Print(&text, v)
		return text.Bytes(), err
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	if o == asYAML {
		// The encoder of YAML escapes control characters; what else does something it writes as it is. It is
		// replaced before: the encoder quotes by what it writes.
		return yaml.JSONToYAML([]byte(plain.Text(string(text))))
	}
	return append(plain.JSON(text), '\n'), nil
}

// print prints lines.
func (a *app) print(lines ...string) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := a.out.Write([]byte(strings.Join(lines, "\n") + "\n"))
	return err
}

// one is the object itself if the user named one, else the list.
func one[T any](named int, items []T) any {
	if named == 1 && len(items) == 1 {
		return items[0]
	}
	if items == nil {
		items = []T{}
	}
	return map[string]any{"items": items}
}
