package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params"
	"github.com/nodehitch/nodehitch/shared/strict"
)

// baseHOT is where Tacker has the Heat templates of a package, those of a flavour in a
// directory of its name.
const baseHOT = "BaseHOT"

// maxTemplate is more than Heat takes of one template by default.
const maxTemplate = 1 << 20

// template is what is read of a Heat template.
type template struct {
	Version   any                 `json:"heat_template_version"`
	Resources map[string]resource `json:"resources"`
}

type resource struct {
	Type any `json:"type"`
}

// templates is what the Heat templates of a package make, by the names of the resources.
type templates struct {
	files           []string
	volumes, points []string
	// foreign is a resource type that makes what only the cloud knows, "" for none.
	foreign string
}

// CheckTemplates compares the volumes and connection points that the parameters name with
// the package's Heat templates, if it has any: those of the request's flavour, or all. The
// error is of reading, never about content.
func (r *Request) CheckTemplates(p *Package) error {
	found, err := r.readTemplates(p)
	if err != nil || len(found.files) == 0 {
		return err
	}
	for _, use := range params.Resources(r.Params, fault.Root.Key("additionalParams")) {
		kind, names := "connection point (OS::Neutron::Port, OS::Neutron::FloatingIP)", found.points
		if use.Volume {
			kind, names = "volume (OS::Cinder::Volume)", found.volumes
		}
		if slices.Contains(names, use.Name) {
			continue
		}
		list := fault.List{{Pointer: use.Pointer, Message: fmt.Sprintf("%q is no %s of %s; expected %s",
			use.Name, kind, strings.Join(found.files, ", "), oneOf(names))}}
		switch {
		case found.foreign != "":
			list[0].Message += fmt.Sprintf(", or one that %s makes", found.foreign)
			r.warn(r.name, list)
		case use.Sign: // a role may have another sign
			r.warn(r.name, list)
		default:
			r.refuse(r.name, list)
		}
	}
	return nil
}

func oneOf(names []string) string {
	if len(names) == 0 {
		return "one, and the templates have none"
	}
	return strings.Join(names, " or ")
}

// readTemplates reads the templates of the request's flavour, or all if the package has no
// directory of its name.
func (r *Request) readTemplates(p *Package) (*templates, error) {
	root := baseHOT
	if own := path.Join(baseHOT, r.flavour); fs.ValidPath(own) {
		if info, err := fs.Stat(p, own); err == nil && info.IsDir() {
			root = own
		}
	}
	found := &templates{}
	err := fs.WalkDir(p, root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case name == root && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case err != nil:
			return fmt.Errorf("reading the package's templates: %w", err)
		case entry.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml"}, path.Ext(name)):
			return r.readTemplate(p, name, found)
		}
		return nil
	})
	slices.Sort(found.volumes)
	slices.Sort(found.points)
	found.volumes, found.points = slices.Compact(found.volumes), slices.Compact(found.points)
	return found, err
}

// readTemplate adds what one file makes. A file that is no template is left out.
func (r *Request) readTemplate(p *Package, name string, found *templates) error {
	content, _, err := p.Content(name)
	if err != nil {
		return fmt.Errorf("reading the package's templates: %w", err)
	}
	defer content.Close()
	text, err := io.ReadAll(io.LimitReader(content, maxTemplate+1))
	if err != nil {
		return fmt.Errorf("reading the package's templates: %w", err)
	}
	if len(text) > maxTemplate {
		r.refuse(name, asList(nil, fmt.Sprintf("has more than %d bytes, the most that a template may have", maxTemplate)))
		return nil
	}
	documents, err := strict.Documents(text)
	if err != nil {
		r.refuse(name, asList(err, ""))
		return nil
	}
	var t template
	if len(documents) != 1 || json.Unmarshal(documents[0], &t) != nil || t.Version == nil {
		return nil
	}
	found.files = append(found.files, name)
	for name, r := range t.Resources {
		found.add(name, fmt.Sprint(r.Type))
	}
	return nil
}

func (t *templates) add(name, kind string) {
	switch {
	case kind == "OS::Cinder::Volume":
		t.volumes = append(t.volumes, name)
	case kind == "OS::Neutron::Port" || kind == "OS::Neutron::FloatingIP":
		t.points = append(t.points, name)
	case strings.HasPrefix(kind, "OS::") || strings.HasPrefix(kind, "AWS::"):
	case slices.Contains([]string{".yaml", ".yml"}, path.Ext(kind)): // a template of the package
	default:
		t.foreign = kind
	}
}
