package containerdconf

import "path/filepath"

// With is the configuration of c, config.toml, with the drop-ins that it imports, in
// the order in which containerd reads them. In 1.x the plugin's table of a drop-in
// takes the place of the whole table before it; in 2.x what it sets is added.
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

// Directories are where containerd looks for hosts.toml, in their order; what is to
// be written belongs into the first. There is none where config_path is to be set:
// by SetConfigPath, or in the drop-in that overrides it.
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

// Set is what Read says of the content that SetConfigPath makes of this one. With
// drop-ins it tells beforehand where hosts.toml will be looked for, and whether one of
// them takes config_path away again: then its Directories are none still.
func (c Config) Set() Config {
	if len(c.Directories()) == 0 {
		c.ConfigPath, c.hasPlugin = firstOf(c.ConfigPath), true
	}
	return c
}
