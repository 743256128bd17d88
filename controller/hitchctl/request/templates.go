package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	Version    any                 `json:"heat_template_version"`
	Parameters map[string]any      `json:"parameters"`
	Resources  map[string]resource `json:"resources"`
}

type resource struct {
	Type       any            `json:"type"`
	Properties map[string]any `json:"properties"`
}

// templates is what the Heat templates of a package make, by the names of the resources.
type templates struct {
	root                                       string
	files                                      []string
	volumes, points, servers, groups, policies []string
	// nfv are the members of the parameter nfv that they take, such as VDU/worker/flavor.
	nfv []string
	// parameters are those of the base HOT.
	parameters []string
	// script is the base HOT that has a script of the cluster, "" for none.
	script string
	// nested are the templates that they name, with the file that does.
	nested map[string]string
	// alone are those resources that are nested templates and no members of groups, with the file.
	alone map[string]string
	// foreign is a resource type that makes what only the cloud knows, "" for none.
	foreign string
}

// CheckTemplates compares the volumes, connection points, groups and servers that the parameters name
// with the package's Heat templates, if it has any: those of the request's flavour, or all.
// The error is of reading, never about content.
func (r *Request) CheckTemplates(p *Package) error {
	found, err := r.readTemplates(p)
	if err != nil || len(found.files) == 0 {
		return err
	}
	r.templates = found
	if p := r.Params; found.script != "" && p != nil && p.Cluster != nil && p.Cluster.Kubernetes != nil {
		r.warn(r.name, fault.List{{Pointer: "/additionalParams/k8s_cluster_installation_param/kubernetes", Message: fmt.Sprintf(
			"nodehitch makes the cluster, so the cluster's script in %s is not run; build the package without --cluster-script", found.script)}})
	}
	for _, use := range params.Resources(r.Params, fault.Root.Key("additionalParams")) {
		kind, names := "connection point (OS::Neutron::Port, OS::Neutron::FloatingIP)", found.points
		switch use.Kind {
		case params.VolumeResource:
			kind, names = "volume (OS::Cinder::Volume)", found.volumes
		case params.GroupResource:
			kind, names = "group (OS::Heat::AutoScalingGroup)", found.groups
		case params.ServerResource:
			kind, names = "server (OS::Nova::Server)", found.servers
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
	found := &templates{root: baseHOT, nested: map[string]string{}, alone: map[string]string{}}
	if own := path.Join(baseHOT, r.flavour); fs.ValidPath(own) {
		if info, err := fs.Stat(p, own); err == nil && info.IsDir() {
			found.root = own
		}
	}
	err := fs.WalkDir(p, found.root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case name == found.root && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case err != nil:
			return fmt.Errorf("reading the package's templates: %w", err)
		case entry.Type().IsRegular() && isYAML(name):
			return r.readTemplate(p, name, found)
		}
		return nil
	})
	for _, names := range []*[]string{&found.volumes, &found.points, &found.servers, &found.groups, &found.policies, &found.nfv} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return found, err
}

func isYAML(name string) bool { return slices.Contains([]string{".yaml", ".yml"}, path.Ext(name)) }

// document is the one YAML document of a file. If it is too large or no YAML that is a fault,
// and the document nil; it is nil too if there is not exactly one.
func (r *Request) document(p *Package, name string) (json.RawMessage, error) {
	content, _, err := p.Content(name)
	if err != nil {
		return nil, fmt.Errorf("reading the package's templates: %w", err)
	}
	defer content.Close()
	text, err := io.ReadAll(io.LimitReader(content, maxTemplate+1))
	if err != nil {
		return nil, fmt.Errorf("reading the package's templates: %w", err)
	}
	if len(text) > maxTemplate {
		r.refuse(name, asList(nil, fmt.Sprintf("has more than %d bytes, the most that a template may have", maxTemplate)))
		return nil, nil
	}
	documents, err := strict.Documents(text)
	if err != nil {
		r.refuse(name, asList(err, ""))
		return nil, nil
	}
	if len(documents) != 1 {
		return nil, nil
	}
	return documents[0], nil
}

// readTemplate adds what one file makes. A file that is no template is left out.
func (r *Request) readTemplate(p *Package, name string, found *templates) error {
	text, err := r.document(p, name)
	if err != nil || text == nil {
		return err
	}
	var t template
	if wrong := json.Unmarshal(text, &t); wrong == nil && t.Version != nil {
		found.files = append(found.files, name)
		if path.Dir(name) == found.root {
			found.parameters = append(found.parameters, slices.Collect(maps.Keys(t.Parameters))...)
			if parameter, _ := t.Parameters["nodehitch_cluster_script"].(map[string]any); parameter["default"] != nil && parameter["default"] != "" {
				found.script = name
			}
		}
		for resource, r := range t.Resources {
			found.add(resource, fmt.Sprint(r.Type), name)
			found.walk(r.Properties, name)
		}
	}
	return nil
}

func (t *templates) add(name, kind, file string) {
	lists := map[string]*[]string{
		"OS::Cinder::Volume": &t.volumes, "OS::Neutron::Port": &t.points, "OS::Neutron::FloatingIP": &t.points,
		"OS::Nova::Server": &t.servers, "OS::Heat::AutoScalingGroup": &t.groups, "OS::Heat::ScalingPolicy": &t.policies,
	}
	switch list := lists[kind]; {
	case list != nil:
		*list = append(*list, name)
	case strings.HasPrefix(kind, "OS::") || strings.HasPrefix(kind, "AWS::"):
	case isYAML(kind): // a template of the package
		t.nested[kind], t.alone[name] = file, file
	default:
		t.foreign = kind
	}
}

// walk finds what properties take of nfv, and the template of a group's members.
func (t *templates) walk(value any, file string) {
	switch v := value.(type) {
	case []any:
		for _, each := range v {
			t.walk(each, file)
		}
	case map[string]any:
		for name, each := range v {
			from, _ := each.([]any)
			kind, _ := each.(string)
			switch {
			case name == "get_param" && len(from) == 4 && from[0] == "nfv":
				t.nfv = append(t.nfv, fmt.Sprintf("%v/%v/%v", from[1:]...))
			case name == "type" && isYAML(kind):
				t.nested[kind] = file
			default:
				t.walk(each, file)
			}
		}
	}
}
