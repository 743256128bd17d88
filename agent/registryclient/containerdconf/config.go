package containerdconf

import "errors"

// Directory is the config_path that SetConfigPath writes.
const Directory = "/etc/containerd/certs.d"

// Config is what one file of containerd's configuration, config.toml or a drop-in
// that it imports, says of registries.
type Config struct {
	Version     Version  // of the containerd that reads it
	Schema      int      // the file's version, what containerd takes it for where it has none
	CRIDisabled bool     // disabled_plugins has the CRI plugin: containerd does nothing for Kubernetes
	ConfigPath  string   // "" and not set are the same
	Legacy      []string // what config_path must not stand beside: names of keys, for a message
	Imports     []string // file patterns, relative ones to the file's own directory; what they match overrides the file
}

// Read decodes the content of config.toml or of a drop-in; no content is a file
// without settings. An error names line and column of what containerd would refuse.
func Read(content []byte, v Version) (Config, error) {
	return Config{}, errors.New("not read yet")
}

// With is the configuration of c with the drop-ins that it imports, in the order in
// which containerd reads them.
func (c Config) With(dropIns ...Config) Config { return c }

// Directories are where containerd looks for hosts.toml, in their order: those of
// config_path or, without one, those that this version takes by itself. None: it
// takes no hosts.toml, and config_path is to be set.
func (c Config) Directories() []string { return nil }

// SetConfigPath returns the content of config.toml with config_path = Directory where
// it has none (no content: a new file), and content as it is where it has one. All else
// is as it was, which is proved: an error is of a file in which it cannot be.
func SetConfigPath(content []byte, v Version) ([]byte, error) {
	return nil, errors.New("not written yet")
}

// UnsetConfigPath returns the content of config.toml without the config_path that
// SetConfigPath wrote, nil where nothing else is in it. One with another value stays.
func UnsetConfigPath(content []byte, v Version) ([]byte, error) {
	return nil, errors.New("not written yet")
}
