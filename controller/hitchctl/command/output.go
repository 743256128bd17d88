package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the value of -o.
type output string

const (
	asTable output = "table"
	asWide  output = "wide"
	asJSON  output = "json"
	asYAML  output = "yaml"
)

// outputFlag adds -o with these formats; the first is the default.
func outputFlag(cmd *cobra.Command, o *output, formats ...output) {
	*o = formats[0]
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	cmd.Flags().VarP(&choice{o, names}, "output", "o", "format: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// choice is a flag with a few values.
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
	if !slices.Contains(c.names, s) {
		return fmt.Errorf("expected one of %s", strings.Join(c.names, ", "))
	}
	*c.value = output(s)
	return nil
}

// encode prints a value for programs.
func (a *app) encode(o output, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o == asYAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	if o != asYAML {
		text = append(text, '\n')
	}
	_, err = a.out.Write(text)
	return err
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
