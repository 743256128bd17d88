// Package hot has the Heat templates of the VNFs whose machines become nodehitch
// nodes. What makes a machine a node is one nested template, the same cloud-config
// that package cloudinit renders; the templates around it are plain and meant to be
// copied and changed.
//
// Each shape of a VNF is a template of its own, without conditions on what it
// consists of: Tacker takes a base HOT by the flavour's name, and for that flavour
// the VNFD lists the same VDUs and CPs. One with a condition would name a VDU that
// is not there, and Tacker's UserData fails on a CP without a network.
package hot

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// Agent is the template that makes the user_data of a role.
const Agent = "nodehitch-agent.yaml"

// Flavours are the templates that a stack is created from, without .yaml.
var Flavours = []string{"simple", "simple-storage", "complex", "complex-storage", "registry"}

//go:embed templates
var templates embed.FS

//go:embed example-environment.yaml
var example string

// Files are the templates by name, and an example of an environment file. All lie
// in one directory, because `openstack stack create -t` looks there for nested templates.
func Files() map[string]string {
	files := map[string]string{"example-environment.yaml": example}
	entries, err := templates.ReadDir("templates")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		text, err := templates.ReadFile(path.Join("templates", e.Name()))
		if err != nil {
			panic(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// TackerFiles are the templates as a VNF package of Tacker's v1 API has them, by path:
// BaseHOT/<flavour> with the one template of that flavour, and nested beside it.
func TackerFiles() map[string]string {
	files := map[string]string{}
	for _, flavour := range Flavours {
		base := "BaseHOT/" + flavour + "/"
		top, nested := BaseHOT(flavour, V1)
		files[base+flavour+".yaml"] = top
		for name, text := range nested {
			files[base+"nested/"+name] = text
		}
	}
	return files
}

// Differing are the paths, in order, of those files that are below the directory already with
// other content.
func Differing(directory string, files map[string]string) ([]string, error) {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		found, err := os.ReadFile(filepath.Join(directory, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the templates: %w", err)
		}
		if string(found) != files[name] {
			paths = append(paths, name)
		}
	}
	return paths, nil
}

// Write writes files, by path, below a directory, which is made where it is not
// there. Files of other names stay.
func Write(directory string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(directory, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing the templates: %w", err)
		}
		if err := durable.Write(file, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing the templates: %w", err)
		}
	}
	return nil
}
