package containerdconf

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

// Directory is the config_path that SetConfigPath writes if none is set.
const Directory = "/etc/containerd/certs.d"

// Config is what one file of containerd's configuration, config.toml or a drop-in
// that it imports, says about registries.
type Config struct {
	Version     Version  // of the containerd that reads it
	Schema      int      // the file's version; 1 if it has none, as in every containerd
	CRIDisabled bool     // disabled_plugins has the CRI plugin: containerd does nothing for Kubernetes
	ConfigPath  string   // as it is written; "" and not set are the same to containerd
	Legacy      []string // keys that keep containerd from starting if config_path is set too
	Imports     []string // patterns of drop-ins, which override the file; see Imported

	plugin    string // name of the plugin's table
	hasPlugin bool   // the table exists; it may be empty
	localPull bool   // 2.1 and later: the transfer service does not pull images
}

// Read decodes the content of config.toml or of a drop-in; no content is a file without
// settings. An error describes what containerd would refuse, with its line.
func Read(content []byte, v Version) (Config, error) {
	root, err := decode(content)
	if err != nil {
		return Config{}, err
	}
	c := Config{Version: v}
	if c.Schema, err = schemaOf(root, v); err != nil {
		return Config{}, err
	}
	if c.Imports, err = list(root, "imports"); err != nil {
		return Config{}, err
	}
	disabled, err := list(root, "disabled_plugins")
	if err != nil {
		return Config{}, err
	}
	c.CRIDisabled = slices.ContainsFunc(disabled, func(name string) bool { return v.isCRI(c.Schema, name) })
	plugins, err := table(root, "plugins")
	if err != nil {
		return Config{}, err
	}
	return c, c.readPlugin(plugins)
}

// readPlugin reads the table of the plugin that pulls images for Kubernetes.
func (c *Config) readPlugin(plugins map[string]any) error {
	name := c.Version.plugin(c.Schema, plugins)
	c.plugin = name
	_, c.hasPlugin = plugins[name]
	plugin, err := table(plugins, name)
	if err != nil {
		return err
	}
	registry, err := table(plugin, "registry")
	if err != nil {
		return err
	}
	if value, ok := registry["config_path"]; ok {
		if c.ConfigPath, ok = value.(string); !ok {
			return fmt.Errorf("config_path of the plugin %s is no string, and containerd does not start with that; write it in quotes", name)
		}
	}
	if c.Legacy, err = legacy(registry, c.Version); err != nil {
		return err
	}
	c.localPull = pullsLocally(plugins, registry)
	return nil
}

// decode reads the file as a tree; its errors have a line and a column.
func decode(content []byte) (map[string]any, error) {
	root := map[string]any{}
	err := toml.Unmarshal(content, &root)
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		line, column := syntax.Position()
		return nil, fmt.Errorf("line %d, column %d: %w; containerd does not start with that", line, column, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; containerd does not start with that", err)
	}
	return root, nil
}

// schemaOf reads the file's version.
func schemaOf(root map[string]any, v Version) (int, error) {
	value, ok := root["version"]
	if !ok {
		return 1, nil
	}
	schema, ok := value.(int64)
	if !ok || schema < 0 || schema > v.newestSchema() {
		return 0, fmt.Errorf("version = %v: containerd %s knows versions 1 to %d of its configuration", value, v, v.newestSchema())
	}
	return max(1, int(schema)), nil
}

// table returns the table with that name, nil if there is none.
func table(parent map[string]any, name string) (map[string]any, error) {
	value, ok := parent[name]
	if !ok {
		return nil, nil
	}
	t, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no table, and containerd does not start with that", name)
	}
	return t, nil
}

// list returns the list of strings with that name.
func list(parent map[string]any, name string) ([]string, error) {
	value, ok := parent[name]
	if !ok {
		return nil, nil
	}
	wrong := fmt.Errorf("%s is no list of strings, and containerd does not start with that", name)
	values, ok := value.([]any)
	if !ok {
		return nil, wrong
	}
	var texts []string
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			return nil, wrong
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// Imported returns the patterns of Imports for filepath.Glob, for a file in that
// directory. A pattern without * is a file that must exist.
func (c Config) Imported(directory string) []string {
	var patterns []string
	for _, p := range c.Imports {
		if !filepath.IsAbs(p) {
			p = filepath.Join(directory, p)
		}
		patterns = append(patterns, filepath.Clean(p))
	}
	return patterns
}
