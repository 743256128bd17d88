package containerdconf

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// Directory is the config_path that is written if none is set.
const Directory = "/etc/containerd/certs.d"

// Config is what containerd makes of its configuration, as far as registries are
// concerned: of config.toml, of the files that it imports, and of its own defaults.
type Config struct {
	CRIDisabled bool     // containerd does nothing for Kubernetes
	ConfigPath  string   // "" if it is not set
	Legacy      []string // keys that keep containerd from starting if config_path is set too
	CNIPlugins  string   // the first directory of CNI plugins, "" if none is set
	PauseImage  string   // the image that each Pod begins with, "" if none is set

	version   Version
	localPull bool // 2.1 and later: the transfer service does not pull images
}

// Read reads what `containerd config dump` prints. How files are merged, and what becomes
// of a file of an older version, differs between containerds, even between patches of one
// version; so containerd itself says it.
func Read(dump []byte, v Version) (Config, error) {
	root, err := decode(dump)
	if err != nil {
		return Config{}, err
	}
	c := Config{version: v}
	disabled, err := list(root, "disabled_plugins")
	if err != nil {
		return Config{}, err
	}
	plugins, err := table(root, "plugins")
	if err != nil {
		return Config{}, err
	}
	plugin, err := table(plugins, dumpedPlugin(plugins))
	if err != nil {
		return Config{}, err
	}
	c.CRIDisabled = plugin == nil || slices.ContainsFunc(disabled, isCRI)
	registry, err := table(plugin, "registry")
	if err != nil {
		return Config{}, err
	}
	c.ConfigPath, _ = registry["config_path"].(string)
	if c.Legacy, err = legacy(registry, v); err != nil {
		return Config{}, err
	}
	c.localPull = pullsLocally(plugin, registry)
	c.CNIPlugins, c.PauseImage = ofPods(plugins, plugin)
	return c, nil
}

// Directories are where containerd looks for hosts.toml, in order; new files belong into
// the first. There are none if config_path has yet to be set.
func (c Config) Directories() []string {
	path := c.ConfigPath
	if path == "" && c.version.since(2, 2) && len(c.Legacy) == 0 {
		path = defaultPath
	}
	directories := filepath.SplitList(path)
	if len(directories) > 1 && c.version.transfers() && !c.localPull {
		return nil
	}
	return directories
}

// Wanted is the directory for config_path if there are no Directories: the first one of a
// list that this containerd does not support, else Directory.
func (c Config) Wanted() string {
	if paths := filepath.SplitList(c.ConfigPath); len(paths) > 0 && paths[0] != "" {
		return paths[0]
	}
	return Directory
}

// Mentions reports whether the content of a configuration file has a table of the plugin
// that pulls images for Kubernetes, under any of its names.
func Mentions(content []byte) bool {
	root, err := decode(content)
	if err != nil {
		return false
	}
	plugins, err := table(root, "plugins")
	return err == nil && slices.ContainsFunc(pluginNames, func(name string) bool { return plugins[name] != nil })
}

// decode reads the file as a tree; its errors have a line and a column.
func decode(content []byte) (map[string]any, error) {
	root := map[string]any{}
	err := toml.Unmarshal(content, &root)
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return nil, fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	return root, err
}

// table returns the table with that name, nil if there is none.
func table(parent map[string]any, name string) (map[string]any, error) {
	value, ok := parent[name]
	if !ok {
		return nil, nil
	}
	t, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no table", name)
	}
	return t, nil
}

// list returns the list of strings with that name.
func list(parent map[string]any, name string) ([]string, error) {
	value, ok := parent[name]
	if !ok {
		return nil, nil
	}
	values, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is no list of strings", name)
	}
	var texts []string
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s is no list of strings", name)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// Imported are the files that the dump says were read, config.toml among them.
func Imported(dump []byte) []string {
	root, err := decode(dump)
	if err != nil {
		return nil
	}
	files, _ := list(root, "imports")
	slices.Sort(files)
	return files
}
