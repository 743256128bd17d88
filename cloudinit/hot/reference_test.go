package hot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// required are the properties that a resource of Heat's own must have here.
var required = map[string][]string{
	"OS::Cinder::Volume":            {"size"},
	"OS::Cinder::VolumeAttachment":  {"instance_uuid", "volume_id"},
	"OS::Heat::AutoScalingGroup":    {"min_size", "max_size", "desired_capacity", "resource"},
	"OS::Heat::CloudConfig":         {"cloud_config"},
	"OS::Heat::MultipartMime":       {"parts"},
	"OS::Heat::WaitCondition":       {"handle", "timeout"},
	"OS::Heat::WaitConditionHandle": {},
	"OS::Heat::ScalingPolicy":       {"auto_scaling_group_id", "adjustment_type", "scaling_adjustment"},
	"OS::Neutron::Port":             {"network"},
	"OS::Neutron::SecurityGroup":    {"rules"},
	"OS::Nova::Server":              {"flavor", "image", "networks", "user_data", "user_data_format", "user_data_update_policy"},
	"OS::Nova::ServerGroup":         {"policies"},
}

// checker is one template and what is wrong with it.
type checker struct {
	*hotTemplate
	all    map[string]*hotTemplate
	used   map[string]bool // parameters
	faults []string
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// faultsOf finds every reference that does not resolve.
func faultsOf(text string, all map[string]*hotTemplate, t *testing.T) []string {
	c := &checker{hotTemplate: parse(t, text), all: all, used: map[string]bool{}}
	for _, name := range keys(c.Conditions) {
		walk(map[string]any{"condition": c.Conditions[name]}, nil, c.function(name))
	}
	for _, name := range keys(c.Resources) {
		r := c.Resources[name]
		walk(r.Properties, []string{r.Condition}, c.function(name))
		walk(r.DeletionPolicy, nil, c.function(name))
		if _, ok := c.Conditions[r.Condition]; r.Condition != "" && !ok {
			c.fault("%s: there is no condition %s", name, r.Condition)
		}
		if r.DependsOn != "" && c.Resources[r.DependsOn] == nil {
			c.fault("%s: depends on %s, which does not exist", name, r.DependsOn)
		}
		c.properties(name, r.Type, r.Properties)
		if member, ok := r.Properties["resource"].(map[string]any); ok {
			properties, _ := member["properties"].(map[string]any)
			c.properties(name+".resource", fmt.Sprint(member["type"]), properties)
		}
	}
	for _, name := range keys(c.Outputs) {
		walk(c.Outputs[name], nil, c.function(name))
	}
	for _, name := range keys(c.Parameters) {
		if !c.used[name] {
			c.fault("parameter %s is not used", name)
		}
	}
	return c.faults
}

// properties checks that the properties of a resource are those of its type.
func (c *checker) properties(name, kind string, given map[string]any) {
	need, known := required[kind]
	if nested, ok := c.all[kind]; ok {
		known = true
		for _, p := range keys(nested.Parameters) {
			if _, optional := nested.Parameters[p]["default"]; !optional {
				need = append(need, p)
			}
		}
		for p := range given {
			if nested.Parameters[p] == nil {
				c.fault("%s: %s has no parameter %s", name, kind, p)
			}
		}
	}
	if !known {
		c.fault("%s: type %s is not known", name, kind)
	}
	for _, p := range need {
		if _, ok := given[p]; !ok {
			c.fault("%s: %s is missing", name, p)
		}
	}
	if kind == "OS::Nova::Server" && (given["user_data_format"] != "RAW" || given["user_data_update_policy"] != "IGNORE") {
		c.fault("%s: user_data is not raw, or a change of it would replace the server", name)
	}
}

// function checks each function of Heat below where.
func (c *checker) function(where string) func(string, any, []string) {
	return func(function string, argument any, conditions []string) {
		target := argument
		path, _ := argument.([]any)
		if len(path) > 0 {
			target = path[0]
		}
		name, _ := target.(string)
		switch function {
		case "get_param":
			c.used[name] = true
			if c.Parameters[name] == nil {
				c.fault("%s: there is no parameter %s", where, name)
			}
		case "get_resource", "get_attr":
			c.reference(where, name, path, conditions)
		case "if":
			if _, ok := c.Conditions[name]; !ok || len(path) != 3 {
				c.fault("%s: if with condition %q and %d branches", where, name, len(path)-1)
			}
		case "get_file":
			c.fault("%s: get_file, which Tacker does not resolve", where)
		}
	}
}

func (c *checker) reference(where, name string, path []any, conditions []string) {
	r := c.Resources[name]
	if r == nil {
		c.fault("%s: there is no resource %s", where, name)
		return
	}
	if r.Condition != "" && !slices.Contains(conditions, r.Condition) {
		c.fault("%s: %s is not there unless %s", where, name, r.Condition)
	}
	if nested, ok := c.all[r.Type]; ok && len(path) > 1 && nested.Outputs[fmt.Sprint(path[1])] == nil {
		c.fault("%s: %s has no output %v", where, r.Type, path[1])
	}
}

// VRRP reaches a master only from a master, and the servers of a cluster reach each other.
func TestOnlyMastersAcceptVRRP(t *testing.T) {
	all := parsed(t)
	for _, name := range []string{"complex.yaml", "complex-storage.yaml"} {
		e := evaluate(t, Files()[name], map[string]any{"security_groups": []any{"own"}})
		got := map[string]string{}
		for where, r := range e.Resources {
			member, _ := r.Properties["resource"].(map[string]any)
			switch {
			case r.Type == "OS::Neutron::SecurityGroup":
				var accepted []string
				for _, rule := range e.value(r.Properties["rules"]).([]any) {
					rule := rule.(map[string]any)
					accepted = append(accepted, fmt.Sprint(rule["protocol"]))
					if rule["remote_mode"] != "remote_group_id" || rule["remote_group_id"] != nil {
						t.Errorf("%s: %s accepts what is not from its members: %v", name, where, rule)
					}
				}
				slices.Sort(accepted)
				got[where] = strings.Join(accepted, " ")
			case member != nil:
				got[where] = fmt.Sprint(e.value(member["properties"].(map[string]any)["security_groups"]))
				for port, r := range all[member["type"].(string)].Resources {
					if groups := fmt.Sprint(r.Properties["security_groups"]); r.Type == "OS::Neutron::Port" && groups != "map[get_param:security_groups]" {
						t.Errorf("%s: the port %s of %s has the security groups %s", name, port, where, groups)
					}
				}
			case where == "storage_server_CP":
				got[where] = fmt.Sprint(e.value(r.Properties["security_groups"]))
			}
		}
		want := map[string]string{
			"cluster_security_group": "4 icmp ipv6-icmp tcp tcp udp udp", "masters_security_group": "vrrp vrrp",
			"master_instance": "[cluster_security_group masters_security_group own]", "worker_instance": "[cluster_security_group own]",
		}
		if e.Resources["storage_server"] != nil {
			want["storage_server_CP"] = "[cluster_security_group own]"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func parsed(t *testing.T) map[string]*hotTemplate {
	all := map[string]*hotTemplate{}
	for name, text := range Files() {
		if name != "example-environment.yaml" {
			all[name] = parse(t, text)
		}
	}
	return all
}

func TestEveryReferenceResolves(t *testing.T) {
	all := parsed(t)
	if len(all) != 10 {
		t.Errorf("%d templates", len(all))
	}
	texts := maps.Clone(Files())
	delete(texts, "example-environment.yaml")
	for _, flavour := range Flavours {
		texts["v1 "+flavour], _ = BaseHOT(flavour, V1)
	}
	for name, text := range texts {
		if faults := faultsOf(text, all, t); len(faults) > 0 {
			t.Errorf("%s:\n%s", name, strings.Join(faults, "\n"))
		}
	}
}

// The check above finds what it says it finds.
func TestBrokenTemplatesAreFound(t *testing.T) {
	all := parsed(t)
	for name, test := range map[string]struct{ file, old, new, want string }{
		"parameter":        {"simple.yaml", "{get_param: worker_min}", "{get_param: worker_mni}", "there is no parameter worker_mni"},
		"unused":           {"simple.yaml", "{get_param: worker_min}", "2", "parameter worker_min is not used"},
		"resource":         {"simple-storage.yaml", "{get_resource: storage_server_volume}", "{get_resource: volume}", "there is no resource volume"},
		"output":           {"simple.yaml", "{get_attr: [worker_agent, user_data]}", "{get_attr: [worker_agent, text]}", "nodehitch-agent.yaml has no output text"},
		"nested parameter": {"simple.yaml", "          user_data: {get_attr: [worker_agent", "          userdata: {get_attr: [worker_agent", "nodehitch-worker.yaml has no parameter userdata"},
		"left out":         {"simple.yaml", "          user_data: {get_attr: [worker_agent", "          vip: {get_attr: [worker_agent", "worker_instance.resource: user_data is missing"},
		"type":             {"simple.yaml", "type: nodehitch-worker.yaml", "type: worker.yaml", "type worker.yaml is not known"},
		"condition":        {"registry.yaml", "        - wait\n", "        - waits\n", `condition "waits"`},
		"disabled":         {"nodehitch-worker.yaml", "        - {get_param: user_data}\n", "        - {get_attr: [signal, token]}\n", "signal is not there unless wait"},
		"depends":          {"nodehitch-worker.yaml", "depends_on: workerNode", "depends_on: worker", "depends on worker"},
		"replaced":         {"nodehitch-worker.yaml", "IGNORE", "REPLACE", "would replace the server"},
		"property":         {"complex-storage.yaml", "      size: {get_param: storage_server_volume_size}", "      sizes: {get_param: storage_server_volume_size}", "storage_server_volume: size is missing"},
		"file":             {"nodehitch-worker.yaml", "        - {get_param: user_data}\n", "        - {get_file: user_data}\n", "get_file"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(Files()[test.file], test.old, test.new, 1)
			if text == Files()[test.file] {
				t.Fatalf("%q is not in %s", test.old, test.file)
			}
			if got := strings.Join(faultsOf(text, all, t), "\n"); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
