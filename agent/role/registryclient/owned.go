package registryclient

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// owned is what the connections have on this machine, as the inventory records it. An entry
// of a list may already be gone.
type owned struct {
	// Insecure are our entries of insecure-registries.
	Insecure []string `json:"insecure,omitempty"`
	// Files are ours as a whole, each for a server.
	Files []ownedPart `json:"files,omitempty"`
	// Logins are our entries in the files of logins.
	Logins []ownedPart `json:"logins,omitempty"`
	// Made are other programs' files that the agent created.
	Made []string `json:"made,omitempty"`
	// Restart says that the agent has written config_path and not restarted containerd since.
	Restart bool `json:"restart,omitempty"`
}

// ownedPart is a file, or a part of one, that exists for one server.
type ownedPart struct {
	Path   string `json:"path"`
	Server string `json:"server"`
}

const inventoryKind = "registries"

// owned reads the inventory. It refuses one that the agent cannot have written, because the
// agent removes what the inventory lists.
func (s *step) owned() (owned, error) {
	var o owned
	if err := s.inventory.Read(inventoryKind, &o); err != nil {
		return owned{}, err
	}
	for _, f := range o.Files {
		if !ownName(f.Path) {
			return owned{}, s.inventory.Damaged(fmt.Errorf("%.80q is no file of a registry", f.Path))
		}
	}
	for _, l := range o.Logins {
		if !filepath.IsAbs(l.Path) || filepath.Clean(l.Path) != l.Path || filepath.Base(l.Path) != filepath.Base(kubeletLogins) {
			return owned{}, s.inventory.Damaged(fmt.Errorf("%.80q is no file of logins", l.Path))
		}
	}
	for _, server := range o.servers() {
		if _, err := grammar.RegistryServer(server); err != nil {
			return owned{}, s.inventory.Damaged(fmt.Errorf("server %w", err))
		}
	}
	return o, nil
}

func (o *owned) servers() []string {
	servers := slices.Clone(o.Insecure)
	for _, part := range slices.Concat(o.Files, o.Logins) {
		servers = append(servers, part.Server)
	}
	return servers
}

// own changes the inventory: before a thing is made, and after it is removed.
func (s *step) own(change func(*owned)) error {
	o, err := s.owned()
	if err != nil {
		return err
	}
	change(&o)
	slices.Sort(o.Insecure)
	slices.Sort(o.Made)
	return s.inventory.Write(inventoryKind, o)
}

func add[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

func without[T comparable](list []T, items ...T) []T {
	return slices.DeleteFunc(list, func(t T) bool { return slices.Contains(items, t) })
}
