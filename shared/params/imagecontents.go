package params

import (
	"encoding/json"
	"io"
	"path"
	"strings"
)

const (
	// maxEntries bounds how many names of an archive's files are kept, and maxEntryName
	// each; an image has some hundred.
	maxEntries, maxEntryName = 10_000, 256
	// maxImageConfig bounds a file that may be an image's configuration or manifest, and
	// maxImageConfigs all of them.
	maxImageConfig, maxImageConfigs = 64 << 10, 4 << 20
)

// contents are the other files of an archive. They may come before the index that names them,
// so each is remembered, in bounded memory: with more than that, nothing is said to be missing.
type contents struct {
	names   map[string]bool
	configs map[string]imageConfig
	size    int64 // of the configs read
	partial bool
}

// imageConfig is what is used of an image's configuration, and of an OCI manifest.
type imageConfig struct {
	Architecture string          `json:"architecture"`
	Config       json.RawMessage `json:"config"` // a descriptor in a manifest, settings in a configuration
	Layers       []ociDescriptor `json:"layers"`
}

func newContents() contents {
	return contents{names: map[string]bool{}, configs: map[string]imageConfig{}}
}

func (c *contents) empty() bool { return len(c.names) == 0 }

// add remembers a file. It reads one that is small enough to be a configuration.
func (c *contents) add(name string, size int64, content io.Reader) error {
	if len(c.names) >= maxEntries || len(name) > maxEntryName {
		c.partial = true
		return nil
	}
	c.names[name] = true
	if size == 0 || size > maxImageConfig || c.size+size > maxImageConfigs {
		return nil
	}
	c.size += size
	data, err := io.ReadAll(io.LimitReader(content, size))
	if err != nil {
		return err
	}
	var config imageConfig
	if json.Unmarshal(data, &config) == nil && (config.Architecture != "" || len(config.Layers) > 0) {
		c.configs[name] = config
	}
	return nil
}

// lacks is the first of these files that the archive does not have, "" if it has all.
func (c *contents) lacks(names ...string) string {
	for _, name := range names {
		if !c.partial && !c.names[path.Clean(name)] {
			return name
		}
	}
	return ""
}

// content is the architecture of an image, "" if it is not known, and a file that is missing.
func (e dockerEntry) content(c *contents) (architecture, missing string) {
	if e.Config == "" {
		return "", c.lacks(e.Layers...)
	}
	return c.configs[path.Clean(e.Config)].Architecture, c.lacks(append([]string{e.Config}, e.Layers...)...)
}

// content is that of an OCI manifest. An index of several architectures is not looked into:
// of those that it names, the archive usually has one.
func (d ociDescriptor) content(c *contents) (architecture, missing string) {
	manifest, known := c.configs[d.path()]
	if !known {
		return "", c.lacks(d.path())
	}
	var config ociDescriptor
	_ = json.Unmarshal(manifest.Config, &config) // without a digest it names nothing
	needed := []string{config.path()}
	for _, layer := range manifest.Layers {
		needed = append(needed, layer.path())
	}
	return c.configs[config.path()].Architecture, c.lacks(needed...)
}

// path is where an OCI layout has a blob.
func (d ociDescriptor) path() string {
	return path.Join("blobs", strings.Replace(d.Digest, ":", "/", 1))
}
