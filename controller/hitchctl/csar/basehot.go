package csar

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nodehitch/nodehitch/shared/strict"
)

// vdu is a server of the base HOT, or the member of a group, with what belongs to it.
type vdu struct {
	name, group string // group is "" for a server of the stack itself
	cps         []string
	volumes     []string
	min, max    int
}

// volume is a Cinder volume of the base HOT.
type volume struct {
	name string
	gib  int
}

// baseHOT is what the VNFD has to say of a base HOT.
type baseHOT struct {
	vdus    []vdu
	volumes []volume
}

// template is what is read of one of our own Heat templates.
type template struct {
	Parameters map[string]struct {
		Default any `json:"default"`
	} `json:"parameters"`
	Resources map[string]struct {
		Type       string         `json:"type"`
		Properties map[string]any `json:"properties"`
	} `json:"resources"`
}

func parse(text string) (*template, error) {
	documents, err := strict.Documents([]byte(text))
	if err != nil {
		return nil, err
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("expected one YAML document, found %d", len(documents))
	}
	t := &template{}
	return t, json.Unmarshal(documents[0], t)
}

// readBaseHOT reads one of our own base HOTs and the templates nested in it.
func readBaseHOT(top string, nested map[string]string) (*baseHOT, error) {
	t, err := parse(top)
	if err != nil {
		return nil, fmt.Errorf("reading the base HOT: %w", err)
	}
	b := &baseHOT{}
	for _, name := range slices.Sorted(maps.Keys(t.Resources)) {
		switch r := t.Resources[name]; r.Type {
		case "OS::Nova::Server":
			b.vdus = append(b.vdus, vdu{name: name, cps: t.cps(name), volumes: t.volumesOf(name), min: 1, max: 1})
		case "OS::Cinder::Volume":
			b.volumes = append(b.volumes, volume{name, t.number(r.Properties["size"])})
		case "OS::Heat::AutoScalingGroup":
			member, _ := r.Properties["resource"].(map[string]any)
			m, err := parse(nested[fmt.Sprint(member["type"])])
			if err != nil {
				return nil, fmt.Errorf("reading the template of the members of %s: %w", name, err)
			}
			for _, server := range slices.Sorted(maps.Keys(m.Resources)) {
				if m.Resources[server].Type == "OS::Nova::Server" {
					b.vdus = append(b.vdus, vdu{
						name: server, group: name, cps: m.cps(server),
						min: t.number(r.Properties["min_size"]), max: t.number(r.Properties["max_size"]),
					})
				}
			}
		}
	}
	return b, nil
}

// cps are the ports of a server.
func (t *template) cps(server string) (names []string) {
	networks, _ := t.Resources[server].Properties["networks"].([]any)
	for _, network := range networks {
		of, _ := network.(map[string]any)
		if port := resourceOf(of["port"]); port != "" {
			names = append(names, port)
		}
	}
	return names
}

// volumesOf are the volumes that are attached to a server.
func (t *template) volumesOf(server string) (names []string) {
	for _, r := range t.Resources {
		if r.Type == "OS::Cinder::VolumeAttachment" && resourceOf(r.Properties["instance_uuid"]) == server {
			names = append(names, resourceOf(r.Properties["volume_id"]))
		}
	}
	slices.Sort(names)
	return names
}

// resourceOf is the resource that a get_resource names.
func resourceOf(value any) string {
	function, _ := value.(map[string]any)
	name, _ := function["get_resource"].(string)
	return name
}

// number is a number, or the default of the parameter that a get_param names.
func (t *template) number(value any) int {
	if function, ok := value.(map[string]any); ok {
		name, _ := function["get_param"].(string)
		value = t.Parameters[name].Default
	}
	number, _ := value.(float64)
	return int(number)
}
