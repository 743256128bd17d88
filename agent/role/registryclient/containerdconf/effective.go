package containerdconf

import "path/filepath"

// With is the configuration of c, config.toml, with the drop-ins that it imports, in the
// order in which containerd reads them. In 1.x the plugin's table of a drop-in replaces
// the whole table before it; in 2.x its settings are added.
func (c Config) With(dropIns ...Config) Config {
	for _, d := range dropIns {
		c.CRIDisabled = c.CRIDisabled || d.CRIDisabled
		c.Imports = append(c.Imports[:len(c.Imports):len(c.Imports)], d.Imports...)
		switch {
		case !d.hasPlugin:
		case c.Version.Major < 2:
			c.ConfigPath, c.Legacy = d.ConfigPath, d.Legacy
		default:
			if d.ConfigPath != "" {
				c.ConfigPath = d.ConfigPath
			}
			c.Legacy = append(c.Legacy[:len(c.Legacy):len(c.Legacy)], d.Legacy...)
			c.localPull = c.localPull || d.localPull
		}
	}
	return c
}

// Directories are where containerd looks for hosts.toml, in order; new files belong into
// the first. There are none if config_path has yet to be set: by SetConfigPath, or by an
// operator in the drop-in that overrides it.
func (c Config) Directories() []string {
	path := c.ConfigPath
	if path == "" && c.Version.since(2, 2) && len(c.Legacy) == 0 {
		path = defaultPath
	}
	directories := filepath.SplitList(path)
	if len(directories) > 1 && c.Version.transfers() && !c.localPull {
		return nil
	}
	return directories
}

// Set is what Read would return after SetConfigPath. Together with the drop-ins it tells
// in advance where containerd will look for hosts.toml. If a drop-in removes config_path
// again, the result still has no Directories.
func (c Config) Set() Config {
	if len(c.Directories()) == 0 {
		c.ConfigPath, c.hasPlugin = firstOf(c.ConfigPath), true
	}
	return c
}
