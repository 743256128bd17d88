package connect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/controller/hitchctl/filekind"
	"github.com/nodehitch/nodehitch/shared/durable"
	"github.com/nodehitch/nodehitch/shared/nearest"
	"github.com/nodehitch/nodehitch/shared/strict"
)

// DefaultName is the name of the context whose members stand at the top of the file.
const DefaultName = "default"

// File is the context file, ~/.config/nodehitch/hitchctl.yaml: one context at its top, which
// is called default, or several by name.
type File struct {
	Context
	// CurrentContext is the name of the context in use.
	CurrentContext string             `json:"currentContext,omitempty"`
	Contexts       map[string]Context `json:"contexts,omitempty"`

	path   string
	exists bool
	mode   fs.FileMode
}

// DefaultPath is the path of the context file if NODEHITCH_CONFIG names none; "" if the
// environment knows no home directory.
func DefaultPath(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "nodehitch", "hitchctl.yaml")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "nodehitch", "hitchctl.yaml")
	}
	return ""
}

// Path is that of the context file that the environment names. Only the one of NODEHITCH_CONFIG has
// to exist.
func Path(getenv func(string) string) (string, error) {
	named := getenv("NODEHITCH_CONFIG")
	if _, err := os.Stat(named); named != "" && errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the context: NODEHITCH_CONFIG names %s, which does not exist", named)
	}
	return cmp.Or(named, DefaultPath(getenv)), nil
}

// Open reads the context file at Path.
func Open(getenv func(string) string) (*File, error) {
	path, err := Path(getenv)
	if err != nil {
		return nil, err
	}
	return OpenPath(path)
}

// OpenPath reads a context file. One that does not exist has no contexts.
func OpenPath(path string) (*File, error) {
	f := NewFile(path)
	if path == "" {
		return f, nil
	}
	data, mode, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the context: %w", err)
	}
	if kind := filekind.Of(data); kind != filekind.Unknown && kind != filekind.Context {
		return nil, fmt.Errorf("context %s: is %s; expected a context file of hitchctl, which has a server, and ca and token or the files of both; "+
			"make one as root on the controller's machine with `hitchctl create token NAME --write-context FILE`, copy it here, and name it with `export NODEHITCH_CONFIG=FILE`", path, kind)
	}
	if err := strict.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("context %s:\n%w", path, err)
	}
	if _, twice := f.Contexts[DefaultName]; twice && f.Server != "" {
		return nil, fmt.Errorf("context %s: has a context %s and a server at its top, which are the same; keep one", path, DefaultName)
	}
	f.exists, f.mode = true, mode
	return f, nil
}

// NewFile is a file without contexts, which replaces what is at the path when it is saved.
func NewFile(path string) *File { return &File{path: path} }

// Set puts a context into the file under a name, or at its top if that is "".
func (f *File) Set(name string, c Context) {
	if _, below := f.Contexts[name]; name == "" || name == DefaultName && !below {
		f.Context = c
		return
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Context{}
	}
	f.Contexts[name] = c
}

// Path is where the file is.
func (f *File) Path() string { return f.path }

// Exists says whether there was such a file.
func (f *File) Exists() bool { return f.exists }

// All is every context by its name, that at the top as well.
func (f *File) All() map[string]Context {
	all := maps.Clone(f.Contexts)
	if all == nil {
		all = map[string]Context{}
	}
	if f.Context != (Context{}) {
		all[DefaultName] = f.Context
	}
	return all
}

// Names are the names of all contexts, in order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.All())) }

// Current is the name of the context in use: the one that the file names, or the only one,
// or that at the top; "" if there is none.
func (f *File) Current() string {
	names := f.Names()
	switch {
	case f.CurrentContext != "":
		return f.CurrentContext
	case len(names) == 1:
		return names[0]
	case f.Context != (Context{}):
		return DefaultName
	}
	return ""
}

// Get is the context of a name, and of the one in use if that is "".
func (f *File) Get(asked string) (Context, error) {
	name := cmp.Or(asked, f.Current())
	all := f.All()
	c, ok := all[name]
	switch {
	case ok:
		return c, nil
	case len(all) == 0:
		return c, fmt.Errorf("context %s: has no contexts; `hitchctl create token NAME --write-context FILE`, as root on the controller's machine, makes one", f.path)
	case name == "":
		return c, fmt.Errorf("context %s: has the contexts %s and none is in use; `hitchctl config use-context NAME`, or --context", f.path, strings.Join(f.Names(), ", "))
	}
	return c, fmt.Errorf("%s: %w (`hitchctl config get-contexts` lists them)", f.path, nearest.Unknown("context", name, f.Names()))
}

// Redacted is the file with something else in the place of each token.
func (f *File) Redacted(instead string) *File {
	shown := &File{Context: f.redacted(instead), CurrentContext: f.CurrentContext, Contexts: maps.Clone(f.Contexts)}
	for name, c := range shown.Contexts {
		shown.Contexts[name] = c.redacted(instead)
	}
	return shown
}

// Use makes a context the one in use.
func (f *File) Use(name string) error {
	if _, err := f.Get(name); err != nil {
		return err
	}
	f.CurrentContext = name
	return f.Save()
}

// Save writes the file, for its owner alone. Lock keeps it from undoing another one's change.
func (f *File) Save() error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the context: %w", err)
	}
	path, err := durable.Destination(f.path)
	if err != nil {
		return err
	}
	return durable.Write(path, text, 0o600)
}
