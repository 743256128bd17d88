package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/strict"
)

var (
	errNotAnInteger = errors.New("an integer")
	errNotABoolean  = errors.New("true or false")
)

// Source is where a configuration comes from.
type Source struct {
	// File is the path of the YAML file; "" reads none.
	File string
	// Flags are the values of the flags that were given, by Setting.Flag.
	Flags map[string]string
	// Environ is the environment, as of os.Environ.
	Environ []string
}

// Loaded is a valid configuration, and what the user should hear about it.
type Loaded struct {
	Config
	// Warnings are things that are probably not meant.
	Warnings []string
}

// Load reads, completes and validates the configuration. Its error names the
// place of every fault of file, environment and flags, one on each line: a JSON
// pointer into the file, the variable's name, or the flag's.
func Load(from Source) (Loaded, error) {
	out := Loaded{Config: Default()}
	var faults fault.List
	if from.File != "" {
		faults = append(faults, readFile(from.File, &out.Config)...)
	}
	getenv := environment(from.Environ)
	for _, s := range Settings {
		if value := getenv(s.Variable()); value != "" {
			faults = append(faults, apply(s, &out.Config, value, s.Variable())...)
		}
		if value, given := from.Flags[s.Flag]; given {
			faults = append(faults, apply(s, &out.Config, value, "--"+s.Flag)...)
		}
	}
	out.Warnings = slices.Concat(unknownVariables(from.Environ), out.Store.Etcd.warnings())
	invalid := out.validate()
	if err := out.complete(getenv, os.Hostname); err != nil {
		invalid = append(invalid, fault.Root.Key("names").Fault(fmt.Sprintf("has no value, and its default, the machine's host name, is not known: %v; expected a name", err)))
	}
	for _, f := range append(invalid, out.validateNames()...) {
		f.Pointer = from.place(f.Pointer, getenv)
		if !faults.AtOrBelow(f.Pointer) { // else what could not be read is not there
			faults = append(faults, f)
		}
	}
	if err := faults.Err(); err != nil {
		return Loaded{}, fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	return out, nil
}

// place is where the value that a pointer is of was given: the one that won.
func (from Source) place(pointer string, getenv func(string) string) string {
	for _, s := range Settings {
		if own := s.Pointer(); pointer != own && !strings.HasPrefix(pointer, own+"/") {
			continue
		}
		if _, given := from.Flags[s.Flag]; given {
			return "--" + s.Flag
		}
		if getenv(s.Variable()) != "" {
			return s.Variable()
		}
	}
	if from.File == "" {
		return pointer
	}
	return from.File + ":" + pointer
}

// readFile puts what the file says over the defaults.
func readFile(path string, c *Config) fault.List {
	data, err := os.ReadFile(path)
	if err != nil {
		return fault.List{{Pointer: path, Message: fmt.Sprintf("cannot be read: %v", err)}}
	}
	_, err = strict.UnmarshalKnown(data, c)
	var faults fault.List
	if err == nil || errors.As(err, &faults) {
		return faults.In(path)
	}
	return fault.List{{Pointer: path, Message: err.Error()}}
}

func apply(s Setting, c *Config, value, place string) fault.List {
	if err := s.set(c, value); err != nil {
		return fault.List{{Pointer: place, Message: fmt.Sprintf("is %q; expected %v", value, err)}}
	}
	return nil
}

func environment(environ []string) func(string) string {
	values := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}

// unknownVariables only warns: a Kubernetes service called nodehitch-controller
// puts variables with this prefix into every container.
func unknownVariables(environ []string) []string {
	var warnings, known []string
	for _, s := range Settings {
		known = append(known, s.Variable())
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvironmentPrefix) || slices.Contains(known, name) {
			continue
		}
		text := "the environment variable " + name + " sets nothing"
		if near := nearest.Name(name, known); near != "" {
			text += "; did you mean " + near + "?"
		}
		warnings = append(warnings, text)
	}
	slices.Sort(warnings)
	return warnings
}
