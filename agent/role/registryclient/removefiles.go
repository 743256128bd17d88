package registryclient

import (
	"context"
	"path/filepath"
	"slices"
)

// removeFiles plans the removal of our files that are no longer needed.
func (p *plan) removeFiles() {
	for _, old := range p.have.Files {
		connected := slices.ContainsFunc(p.connections, func(c *connection) bool { return c.Server == old.Server })
		unknown := connected && p.uncertain && filepath.Base(old.Path) == hostsTOMLName
		if p.keep[old.Path] || unknown {
			continue
		}
		p.do("leave "+old.Path, "remove "+old.Path, func(context.Context) error {
			if err := p.Host.Files.Remove(old.Path); err != nil {
				return err
			}
			if err := p.Host.Files.RemoveEmpty(filepath.Dir(old.Path)); err != nil {
				return err
			}
			return p.own(func(o *owned) { o.Files = without(o.Files, old) })
		})
	}
}
