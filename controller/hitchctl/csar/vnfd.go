package csar

import (
	"fmt"

	yamlv2 "go.yaml.in/yaml/v2"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
)

// toscaVersion is of TOSCA Simple Profile in YAML, as SOL001 2.6.1 has it.
const toscaVersion = "tosca_simple_yaml_1_2"

// Image is a software image: one that Glance has by this name, or a file of the package,
// which Tacker uploads under this name.
type Image struct {
	Name string
	// Path is of the file within the package, "" for an image that Glance has.
	Path, DiskFormat, SHA512 string
	Bytes                    int64
}

// product is what the VNFDs of a kind of VNF say of themselves.
type product struct{ nodeType, name string }

var (
	cluster  = product{"nodehitch.nodes.KubernetesCluster", "Kubernetes cluster with nodehitch"}
	registry = product{"nodehitch.nodes.PrivateRegistry", "Private registry with nodehitch"}
)

// vnfd is what the definitions are made of.
type vnfd struct {
	product
	*baseHOT
	id, flavour, driver, artifact string
	api                           hot.API
	imports                       []string // ETSI's type definitions
	flavors                       map[string]string
	images                        map[string]Image
}

// mapping is a YAML mapping of keys and values by turns, which keeps their order.
func mapping(pairs ...any) yamlv2.MapSlice {
	var m yamlv2.MapSlice
	for i := 0; i < len(pairs); i += 2 {
		m = append(m, yamlv2.MapItem{Key: pairs[i], Value: pairs[i+1]})
	}
	return m
}

// definitions are the files of the VNFD, by path.
func (v *vnfd) definitions() (map[string][]byte, error) {
	flavourFile := flavourFile(v.flavour)
	files := map[string][]byte{}
	for name, document := range map[string]yamlv2.MapSlice{
		entryFile: v.document("VNFD of a VNF whose servers become nodehitch nodes", []string{typesFile, flavourFile},
			"topology_template", v.top()),
		typesFile:   v.document("The node type of the VNF", nil, "node_types", mapping(v.nodeType, v.vnfType())),
		flavourFile: v.document("Deployment flavour "+v.flavour, []string{typesFile}, "topology_template", v.deploymentFlavour()),
	} {
		text, err := yamlv2.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("writing the VNFD: %w", err)
		}
		files[definitionsDir+name] = text
	}
	return files, nil
}

func (v *vnfd) document(description string, own []string, key string, content yamlv2.MapSlice) yamlv2.MapSlice {
	return mapping("tosca_definitions_version", toscaVersion, "description", description,
		"imports", append(append([]string{}, v.imports...), own...), key, content)
}

// identity are the properties of the VNF whose values the node type fixes.
func (v *vnfd) identity() [][2]string {
	return [][2]string{
		{"descriptor_id", v.id}, {"descriptor_version", "1.0"}, {"provider", "nodehitch"},
		{"product_name", v.name}, {"software_version", "1.0"},
	}
}

func (v *vnfd) vnfType() yamlv2.MapSlice {
	fixed := func(value string) yamlv2.MapSlice {
		return mapping("type", "string", "constraints", []any{mapping("valid_values", []string{value})}, "default", value)
	}
	properties := yamlv2.MapSlice{}
	for _, p := range v.identity() {
		properties = append(properties, yamlv2.MapItem{Key: p[0], Value: fixed(p[1])})
	}
	properties = append(properties, mapping(
		"vnfm_info", mapping("type", "list", "entry_schema", mapping("type", "string", "constraints",
			[]any{mapping("valid_values", []string{"Tacker"})}), "default", []string{"Tacker"}),
		"flavour_id", fixed(v.flavour),
		"flavour_description", mapping("type", "string", "default", ""))...)
	var links []any
	for _, cp := range v.cps() {
		links = append(links, mapping(linkOf(cp), mapping("capability", "tosca.capabilities.nfv.VirtualLinkable",
			"relationship", "tosca.relationships.nfv.VirtualLinksTo", "occurrences", []int{0, 1})))
	}
	lcm := mapping("type", "tosca.interfaces.nfv.Vnflcm")
	for _, operation := range v.added() {
		lcm = append(lcm, mapping(operation, mapping("description", "Invoked by Tacker's v2 API"))...)
	}
	return mapping("derived_from", "tosca.nodes.nfv.VNF", "properties", properties,
		"requirements", links, "interfaces", mapping("Vnflcm", lcm))
}

func (v *vnfd) top() yamlv2.MapSlice {
	properties := mapping("flavour_id", mapping("get_input", "selected_flavour"))
	for _, p := range v.identity() {
		properties = append(properties, yamlv2.MapItem{Key: p[0], Value: p[1]})
	}
	properties = append(properties, mapping("vnfm_info", []string{"Tacker"})...)
	return mapping(
		"inputs", mapping("selected_flavour", mapping("type", "string", "description", "the deployment flavour that the request names")),
		"node_templates", mapping("VNF", mapping("type", v.nodeType, "properties", properties)))
}

// deploymentFlavour has the same names as the base HOT: Tacker finds servers, ports and
// volumes of the stack by them.
func (v *vnfd) deploymentFlavour() yamlv2.MapSlice {
	inputs := yamlv2.MapSlice{}
	for _, p := range v.identity() {
		inputs = append(inputs, mapping(p[0], mapping("type", "string"))...)
	}
	inputs = append(inputs, mapping("vnfm_info", mapping("type", "list", "entry_schema", mapping("type", "string")),
		"flavour_id", mapping("type", "string"), "flavour_description", mapping("type", "string"))...)
	links := yamlv2.MapSlice{}
	for _, cp := range v.cps() {
		links = append(links, mapping(linkOf(cp), []string{cp, "virtual_link"})...)
	}
	return mapping(
		"inputs", inputs,
		"substitution_mappings", mapping("node_type", v.nodeType,
			"properties", mapping("flavour_id", v.flavour), "requirements", links),
		"node_templates", v.nodes(),
		"policies", v.policies())
}

func (v *vnfd) nodes() yamlv2.MapSlice {
	lcm := yamlv2.MapSlice{}
	for _, operation := range append(operations(), v.added()...) {
		lcm = append(lcm, mapping(operation, mapping("implementation", v.driver))...)
	}
	nodes := mapping("VNF", mapping("type", v.nodeType,
		"properties", mapping("flavour_description", v.name),
		"interfaces", mapping("Vnflcm", lcm),
		"artifacts", mapping(v.driver, mapping("description", "Tells nodehitch's controller of each operation",
			"type", "tosca.artifacts.Implementation.Python", "file", v.artifact))))
	for _, u := range v.vdus {
		nodes = append(nodes, mapping(u.name, v.compute(u))...)
		for i, cp := range u.cps {
			nodes = append(nodes, mapping(cp, mapping("type", "tosca.nodes.nfv.VduCp",
				"properties", mapping("layer_protocols", []string{"ipv4"}, "order", i),
				"requirements", []any{mapping("virtual_binding", u.name)}))...)
		}
	}
	for _, volume := range v.volumes {
		nodes = append(nodes, mapping(volume.name, mapping("type", "tosca.nodes.nfv.Vdu.VirtualBlockStorage",
			"properties", mapping("virtual_block_storage_data", mapping("size_of_storage", fmt.Sprintf("%d GiB", volume.gib)))))...)
	}
	return nodes
}

func (v *vnfd) compute(u vdu) yamlv2.MapSlice {
	image := v.images[u.name]
	data := mapping("name", image.Name, "version", "1.0",
		"checksum", mapping("algorithm", "sha-512", "hash", image.SHA512),
		"container_format", "bare", "disk_format", image.DiskFormat, "min_disk", "0 B", "size", fmt.Sprintf("%d B", image.Bytes))
	node := mapping("type", "tosca.nodes.nfv.Vdu.Compute",
		"properties", mapping("name", u.name, "description", "a server "+u.name,
			"vdu_profile", mapping("min_number_of_instances", u.min, "max_number_of_instances", u.max),
			"sw_image_data", data),
		// Tacker takes the flavor by name. The sizes are what SOL001 wants to be there.
		"capabilities", mapping("virtual_compute", mapping("properties", mapping(
			"requested_additional_capabilities", mapping("properties", mapping(
				"requested_additional_capability_name", v.flavors[u.name], "support_mandatory", true,
				"target_performance_parameters", mapping("flavor", v.flavors[u.name]))),
			"virtual_memory", mapping("virtual_mem_size", "1 GiB"),
			"virtual_cpu", mapping("num_virtual_cpu", 1)))))
	if image.Path != "" {
		node = append(node, mapping("artifacts", mapping("sw_image",
			mapping("type", "tosca.artifacts.nfv.SwImage", "file", "../"+image.Path)))...)
	}
	// At a heal Tacker's v1 API has Heat replace the volumes that a VDU requires, with their data.
	if len(u.volumes) > 0 && v.api == hot.V2 {
		var attached []any
		for _, volume := range u.volumes {
			attached = append(attached, mapping("virtual_storage", volume))
		}
		node = append(node, mapping("requirements", attached)...)
	}
	return node
}

// operations are the hooks that both versions of the API call.
func operations() (names []string) {
	for _, operation := range []string{"instantiate", "scale", "heal", "change_external_connectivity", "modify_information", "terminate"} {
		names = append(names, operation+"_start", operation+"_end")
	}
	return names
}

// added are the hooks of the v2 API that SOL001 2.6.1 does not have.
func (v *vnfd) added() []string {
	if v.api == hot.V1 {
		return nil
	}
	return []string{"change_current_package_start", "change_current_package_end", "instantiate_rollback_end", "scale_rollback_end",
		"change_external_connectivity_rollback_end"}
}

// cps are all connection points.
func (v *vnfd) cps() (names []string) {
	for _, u := range v.vdus {
		names = append(names, u.cps...)
	}
	return names
}

// linkOf is the requirement of the VNF that a connection point meets.
func linkOf(cp string) string { return "virtual_link_" + cp }
