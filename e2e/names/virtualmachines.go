package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/cloudinit/hot"
)

// templates are the Heat templates' parameters, resources and outputs, and where a VNF
// package of Tacker has them.
func templates(context.Context, *source) (list []string, err error) {
	all := hot.Files()
	for file, text := range hot.TackerFiles() {
		list = append(list, file)
		if !strings.Contains(file, "/nested/") { // those are the same
			all[file] = text
		}
	}
	for file, text := range all {
		var t struct {
			Parameters map[string]any // in an environment file the values
			Resources  map[string]struct{ Type string }
			Outputs    map[string]any
		}
		if err := yaml.Unmarshal([]byte(text), &t); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for name, p := range t.Parameters {
			line := file + " parameter " + name
			if declared, ok := p.(map[string]any); ok && declared["type"] != nil {
				line += fmt.Sprintf(" %v", declared["type"])
				if value, ok := declared["default"]; ok && value != "" {
					line += fmt.Sprintf(" = %v", value)
				}
			}
			list = append(list, line)
		}
		for name, r := range t.Resources {
			list = append(list, fmt.Sprintf("%s resource %s %s", file, name, r.Type))
		}
		for name := range t.Outputs {
			list = append(list, file+" output "+name)
		}
	}
	return list, nil
}

var placeholder = regexp.MustCompile(`__[A-Z_]+__`)

// userData is what user_data puts on a VM and runs there, and what a template replaces in
// it. Paths in its scripts are among the files.
func userData(context.Context, *source) (list []string, err error) {
	for _, text := range []string{cloudinit.CloudConfig(" ''\n"), cloudinit.ClusterConfig(" ''\n")} {
		entries, err := cloudConfig(text)
		if err != nil {
			return nil, err
		}
		list = append(list, entries...)
	}
	for _, file := range hot.Files() {
		for _, name := range placeholder.FindAllString(file, -1) {
			list = append(list, "placeholder "+name)
		}
	}
	return list, nil
}

// cloudConfig is what one cloud-config writes, runs and names.
func cloudConfig(text string) (list []string, err error) {
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, err
	}
	for module, entries := range config {
		for _, entry := range entries.([]any) {
			switch entry := entry.(type) {
			case map[string]any:
				list = append(list, fmt.Sprintf("%s %v %v %v", module, entry["path"], entry["owner"], entry["permissions"]))
			case []any:
				list = append(list, module+" "+strings.Join(strings.Fields(strings.Trim(fmt.Sprint(entry), "[]")), " "))
			}
		}
	}
	for _, path := range within.FindAllString(text, -1) {
		list = append(list, "names "+path)
	}
	return list, nil
}
