package tacker

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// fact is something that Tacker does and its stand-in has to do, too. Real Tackers were seen doing it: Zed and 2024.1 by the
// v1 API, these, 2025.1 and 2026.1 by the v2 API.
type fact struct {
	name, says string
	// places are in a tree of Tacker: a file, a colon, and what the file has there.
	places []string
	proves func(*probe)
}

var facts = []fact{
	{name: "v1-parameters-are-text", says: "the parameters of a stack are kept by str(dict) and read by yaml.safe_load: each heal doubles the backslashes into which the first made a line break",
		places: []string{"tacker/vnfm/infra_drivers/openstack/openstack.py: {'stack_param': str(hot_param_dict)}", "tacker/vnflcm/utils.py: def get_stack_param",
			"tacker/conductor/conductor_server.py: vnf_attr_model.update({'value': str(stack_param)})"},
		proves: func(p *probe) {
			p.instantiated("Plain")
			p.has("text", "a\nb")
			for _, want := range []string{`a\nb`, `a\\nb`} {
				p.does("heal", nil)
				p.has("text", want)
			}
		}},
	{name: "v1-heal-keeps-what-was-before", says: "Heat gets what heal of the UserData class makes of the parameters, if it has that method; what is kept are those of before the hooks, also if a hook has changed them in the database",
		places: []string{"tacker/vnfm/infra_drivers/openstack/openstack.py: def _stack_param_update", "tacker/conductor/conductor_server.py: self._update_vnf_attributes_stack_param("},
		proves: func(p *probe) {
			p.instantiated("Asked")
			p.does("heal", nil)
			p.has("text", `heal of a\nb`)
			p.does("heal", nil)
			p.has("text", `heal of a\\nb`)
			p.begin("HEAL", nil)
			p.keep("{'nfv': {'VDU': {}, 'CP': {}}, 'text': 'of a hook'}")
			p.goesOn("heal", nil)
			p.has("text", "heal of of a hook")
			p.does("heal", nil)
			p.has("text", `heal of a\\\\\\\\nb`)
		}},
	{name: "v1-entire-heal-instantiates", says: "a heal of the entire VNF calls instantiate of the UserData class again, with the additional_params that the instance keeps, and alters what is kept once, as any heal",
		places: []string{"tacker/vnflcm/vnflcm_driver.py: from_vnf_instance(vnf_instance)"},
		proves: func(p *probe) {
			p.instantiated("Plain")
			p.kept.additional["number"] = 7
			p.does("heal_entire", nil)
			p.has("text", "a\nb")
			p.has("number", 7.0)
			p.does("heal", nil)
			p.has("text", `a\\nb`)
		}},
	{name: "v1-heal-gives-sizes", says: "a heal, also of the entire VNF, gives Heat the present sizes of the groups as numbers",
		places: []string{"tacker/vnfm/infra_drivers/openstack/openstack.py: ['desired_capacity']) = dc",
			"tacker/vnfm/infra_drivers/openstack/openstack.py: value['properties']['desired_capacity'] = dc"},
		proves: func(p *probe) {
			p.instantiated("Plain")
			for size, operation := range map[int]string{3: "heal", 4: "heal_entire"} {
				p.does(operation, object{"groups": object{"group": size}})
				group := p.kept.heat.Template["resources"].(object)["group"].(object)
				if got := group["properties"].(object)["desired_capacity"]; got != float64(size) {
					p.t.Errorf("%s: Heat makes the group %v large, want %d", operation, got, size)
				}
			}
		}},
	{name: "v1-change-ext-conn-sends-members-templates", says: "a change of connectivity sends Heat its own template, and of the nested ones only those of members of groups; the UserData class is not asked; what Heat answers is only logged",
		places: []string{"tacker/vnfm/infra_drivers/openstack/update_template.py: if resource.resource_type == 'OS::Heat::AutoScalingGroup'",
			`tacker/vnfm/infra_drivers/openstack/openstack.py: LOG.error("Error during update due to %s", str(exc))`},
		proves: func(p *probe) {
			p.instantiated("Asked")
			if problem := p.connect("nested.yaml"); problem != "" {
				p.t.Errorf("with the templates of members alone Heat says %q", problem)
			}
			p.has("text", `a\nb`)
			agent := object{"type": "nested.yaml"}
			p.kept.heat.Template["resources"].(object)["agent"] = agent
			if problem := p.connect(); problem != `Could not fetch remote template "nested.yaml"` {
				p.t.Errorf("without a template that is nested outside of groups Heat says %q", problem)
			}
		}},
	{name: "v1-scale-keeps-what-is-sent", says: "the rollback of a scale-out and a scale-out of an empty group ask scale of the UserData class, and keep what they send",
		places: []string{"tacker/vnfm/infra_drivers/openstack/openstack.py: def scale_in_reverse", "tacker/vnfm/infra_drivers/openstack/openstack.py: def scale_out_initial"},
		proves: func(p *probe) {
			p.instantiated("Asked")
			p.does("scale", nil)
			p.has("text", `scale of a\nb`)
			p.does("scale", nil)
			p.has("text", `scale of scale of a\\nb`)
		}},
	{name: "v1-drops-what-is-false", says: "a member of additionalParams that is false, 0 or empty becomes no parameter",
		places: []string{"tacker/vnfm/lcm_user_data/utils.py: if additional_param.get(input_attr):"},
		proves: func(p *probe) {
			p.additional("Plain")
			p.kept.additional["number"] = 0
			p.does("instantiate", nil)
			p.has("number", nil)
		}},
	{name: "v1-uploads-an-image-for-each-vdu", says: "an image file is uploaded for each VDU, with the name in its sw_image_data; a heal puts names where ids were",
		places: []string{"tacker/vnfm/infra_drivers/openstack/openstack.py: for node_name, vnf_sw_image in vnf_software_images.items()", "tacker/vnflcm/utils.py: userdata_utils.create_sw_image_dict(vnfd_dict)"},
		proves: func(p *probe) {
			p.additional("Ids")
			p.does("instantiate", nil)
			if len(p.kept.images) != 2 {
				p.t.Errorf("Glance has %v, want two images", p.kept.images)
			}
			p.begin("HEAL", nil)
			if problem := p.toHeat("heal", object{"vdus": []string{"one"}, "groups": object{}}); problem != "No image unique match found for debian." {
				p.t.Errorf("with the names again Heat says %q", problem)
			}
		}},
	{name: "database-facade", says: "a query starts the facade of the database; afterwards whoever gets an engine or a session is refused, whoever did so before is not",
		places: []string{"tacker/db/api.py: context_manager.configure(sqlite_fk=True, **cfg.CONF.database)"},
		proves: func(p *probe) {
			p.prints("AlreadyStartedError", "objects.VnfLcmOpOccList.get_by_filters(admin, filters=by)", "plugin.get_vims(admin)")
			p.prints("", "api.get_engine()", "objects.VnfLcmOpOccList.get_by_filters(admin, filters=by)", "plugin.get_vims(admin)", "api.get_engine()")
		}},
	{name: "package-of-a-vnfd", says: "an administrator gets the first package with the VNFD's id, of any project, a user that of the user's project",
		places: []string{"tacker/objects/vnf_package_vnfd.py: if tacker.context.is_user_context(context):", "tacker/objects/vnf_package.py: read_deleted=\"no\", project_only=True)"},
		proves: func(p *probe) {
			const get = "print(objects.VnfPackageVnfd.get_by_id(%s, 'the-vnfd').package_uuid)"
			const user = "context.Context('user', 'tenant', False)"
			p.prints("another\nprobe", strings.ReplaceAll(get, "%s", "admin"), strings.ReplaceAll(get, "%s", user))
			p.prints("VnfPackageVnfdNotFound", strings.ReplaceAll(get, "%s", "context.Context('user', 'third', False)"))
			p.prints("VnfPackageNotFound", "objects.VnfPackage.get_by_id("+user+", 'another')")
		}},
	{name: "v2-heal-keeps-the-parameters", says: "a heal of the v2 API changes nfv alone; a heal of all makes a new stack with what the UserData class of its request gives and nothing else",
		places: []string{"tacker/sol_refactored/infra_drivers/openstack/openstack.py: def _update_fields", `tacker/sol_refactored/infra_drivers/openstack/openstack.py: fields["template"] = heat_client.get_template(stack_name)`},
		proves: func(p *probe) {
			p.instantiated("Plain")
			v := &v2{vnf: p.vnf}
			if problem := v.toHeat("HEAL", object{"vnfcInstanceId": []string{"x"}}); problem != "" {
				p.t.Error(problem)
			}
			p.has("text", "a\nb")
			if problem := v.toHeat("HEAL", object{"additionalParams": object{"all": true}}); problem != "The Parameter (text) was not provided." {
				p.t.Errorf("without a UserData class Heat says %q", problem)
			}
		}},
	{name: "v2-change-of-package-keeps-the-template", says: "a change of the VNF package with RollingUpdate and no VDU gives Heat the flavours and images of the new VNFD, and neither its base HOT nor a parameter of additionalParams",
		places: []string{"tacker/sol_refactored/controller/vnflcm_v2.py: 'vdu_params' must exist in additionalParams", "tacker/sol_refactored/infra_drivers/openstack/userdata_default.py: def change_vnfpkg(",
			"tacker/sol_refactored/infra_drivers/openstack/openstack.py: if not grant_req.obj_attr_is_set('removeResources'):"},
		proves: func(p *probe) {
			p.instantiated("Plain")
			before := p.kept.heat
			if problem := (&v2{vnf: p.vnf}).toHeat("CHANGE_VNFPKG", object{"additionalParams": object{"upgrade_type": "RollingUpdate", "vdu_params": []any{}, "text": "new"}}); problem != "" {
				p.t.Error(problem)
			}
			if !reflect.DeepEqual(p.kept.heat, before) {
				p.t.Errorf("Heat had %v, has %v", before, p.kept.heat)
			}
		}},
}

// TestFacts proves that the stand-in does what Tacker does, without anything of the project. TACKER_SOURCE names a tree of
// Tacker in which each fact has its place.
func TestFacts(t *testing.T) {
	results.Begin(t, suite, "facts", "the stand-in of Tacker does what Tacker does to parameters, templates, images and its database")
	for _, f := range facts {
		t.Run(f.name, func(t *testing.T) {
			f.proves(newProbe(t))
			folder := os.Getenv("TACKER_SOURCE")
			for _, place := range f.places {
				file, has, _ := strings.Cut(place, ": ")
				if folder == "" {
					continue
				}
				text, err := os.ReadFile(filepath.Join(folder, file))
				if err != nil || !strings.Contains(string(text), has) {
					t.Errorf("%s: Tacker's tree has no %q (%v)", file, has, err)
				}
			}
			if t.Failed() {
				t.Log(f.says)
			}
		})
	}
}

// probe is a VNF of a package that has nothing of the project.
type probe struct{ *vnf }

func newProbe(t *testing.T) *probe {
	t.Helper()
	w := &tackerMachine{t: t, whole: t, dir: t.TempDir()}
	w.interpreter = interpreter(t, w.dir)
	p := &probe{&vnf{tackerMachine: w, id: "vnf", packageID: "probe", vnfdID: "the-vnfd", registry: &server{name: "one"},
		body: object{"additionalParams": object{}, "extVirtualLinks": []any{}}, kept: kept{images: map[string]string{}}}}
	err := os.CopyFS(p.folder(), os.DirFS("testdata/probe"))
	another := filepath.Join(filepath.Dir(p.folder()), "another")
	if err := errors.Join(err, os.CopyFS(another, os.DirFS("testdata/probe")), os.WriteFile(w.path("state.json"), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.database(func(d *database) {
		d.Occurrences, d.Projects = []occurrence{}, map[string]string{"another": "administrators"}
	})
	return p
}

// additional are the additionalParams of a request that names this class.
func (p *probe) additional(class string) {
	p.kept.additional = object{"lcm-operation-user-data": "./UserData/probe.py", "lcm-operation-user-data-class": class, "text": "a\nb"}
}

func (p *probe) instantiated(class string) {
	p.t.Helper()
	p.additional(class)
	p.does("instantiate", nil)
	p.kept.images = map[string]string{} // those have a fact of their own
}

// does is an operation, from its request to what the conductor keeps.
func (p *probe) does(operation string, more object) {
	p.t.Helper()
	p.begin(operation, nil)
	p.goesOn(operation, more)
}

func (p *probe) goesOn(operation string, more object) {
	p.t.Helper()
	said := object{"vdus": []string{"one"}, "groups": object{}, "number": 1}
	for name, value := range more {
		said[name] = value
	}
	if problem := p.toHeat(operation, said); problem != "" {
		p.t.Fatalf("%s: %s", operation, problem)
	}
	p.keep(p.kept.after)
	if operation == "heal_entire" {
		p.kept.images = map[string]string{}
	}
}

// connect changes a connection point's network; Heat has these templates of members of groups.
func (p *probe) connect(members ...string) (problem string) {
	p.t.Helper()
	texts := object{}
	for _, name := range members {
		texts[name] = string(asJSON(p.t, p.kept.heat.Files[name]))
	}
	p.begin("CHANGE_EXT_CONN", nil)
	return p.toHeat("change_ext_conn", object{"networks": object{}, "template": string(asJSON(p.t, p.kept.heat.Template)), "members": texts})
}

// has asserts a parameter as Heat has it, nil for none.
func (p *probe) has(name string, want any) {
	p.t.Helper()
	if got := p.kept.heat.Parameters[name]; got != want {
		p.t.Errorf("Heat has %s %q, want %q", name, got, want)
	}
}

// prints asserts what lines of Python print, or with which exception they end.
func (p *probe) prints(want string, lines ...string) {
	p.t.Helper()
	const imports = "from tacker import context, objects\nfrom tacker.db import api\nfrom tacker.nfvo.nfvo_plugin import NfvoPlugin\n" +
		"admin, plugin = context.get_admin_context(), NfvoPlugin()\nby = {'model': 'VnfLcmOpOccs', 'field': 'vnf_instance_id', 'value': 'vnf', 'op': '=='}\n"
	out, err := p.python("-c", imports+strings.Join(lines, "\n")).CombinedOutput()
	if got := strings.TrimSpace(string(out)); err == nil && got != want || err != nil && (want == "" || !strings.Contains(got, want)) {
		p.t.Errorf("%q: %v, %s; want %q", lines, err, got, want)
	}
}
