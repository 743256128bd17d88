package csar

import yamlv2 "go.yaml.in/yaml/v2"

// The instantiation levels: as few servers as the groups may have, and as many.
const smallest, largest = "instantiation_level_1", "instantiation_level_2"

// policies say how the VNF is instantiated and scaled: by one server at a time, from the
// least to the most members of its group. The aspect is called as the group, because the v1
// API makes the names of Heat's scaling policies of it.
func (v *vnfd) policies() []any {
	aspects, low, high := yamlv2.MapSlice{}, yamlv2.MapSlice{}, yamlv2.MapSlice{}
	var vdus []any
	policy := func(name, kind string, properties yamlv2.MapSlice, target string) {
		content := mapping("type", "tosca.policies.nfv."+kind, "properties", properties)
		if target != "" {
			content = append(content, mapping("targets", []string{target})...)
		}
		vdus = append(vdus, mapping(name, content))
	}
	instances := func(n int) yamlv2.MapSlice { return mapping("number_of_instances", n) }
	for _, u := range v.vdus {
		policy(u.name+"_initial_delta", "VduInitialDelta", mapping("initial_delta", instances(u.min)), u.name)
		policy(u.name+"_instantiation_levels", "VduInstantiationLevels",
			mapping("levels", mapping(smallest, instances(u.min), largest, instances(u.max))), u.name)
		if u.min == u.max {
			continue // such as the one master of simple
		}
		aspects = append(aspects, mapping(u.group, mapping("name", u.group, "description", "servers "+u.name,
			"max_scale_level", u.max-u.min, "step_deltas", []string{"delta_1"}))...)
		low = append(low, mapping(u.group, mapping("scale_level", 0))...)
		high = append(high, mapping(u.group, mapping("scale_level", u.max-u.min))...)
		policy(u.name+"_scaling_aspect_deltas", "VduScalingAspectDeltas",
			mapping("aspect", u.group, "deltas", mapping("delta_1", instances(1))), u.name)
	}
	levels := mapping(smallest, mapping("description", "Smallest size", "scale_info", low))
	levels = append(levels, mapping(largest, mapping("description", "Largest size", "scale_info", high))...)
	policy("instantiation_levels", "InstantiationLevels", mapping("levels", levels, "default_level", smallest), "")
	if len(aspects) > 0 {
		policy("scaling_aspects", "ScalingAspects", mapping("aspects", aspects), "")
	}
	return vdus
}
