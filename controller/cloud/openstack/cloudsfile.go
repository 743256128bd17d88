package openstack

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// readEntry is the credential of an entry of the clouds file, with what secure.yaml
// beside it adds. The library's own reader is not used: environment variables of the
// process would change what it reads, its CA replaces the system's, and an entry
// without auth crashes it.
func readEntry(file, name string) (credential, error) {
	open, err := readDocument(file)
	if err != nil {
		return credential{}, err
	}
	merged, found := open[name]
	if !found {
		return credential{}, fmt.Errorf("%s has no cloud %q; it has %s", file, name, listed(open))
	}
	secureFile := filepath.Join(filepath.Dir(file), "secure.yaml")
	secret, err := readDocument(secureFile)
	switch {
	case err == nil:
		merged = overlay(merged, secret[name])
	case !errors.Is(err, fs.ErrNotExist):
		return credential{}, err
	}
	c, faults := fromEntry(merged)
	if len(faults) > 0 {
		return credential{}, fmt.Errorf("cloud %q of %s is not valid:\n%w", name, file, faults)
	}
	return c, c.readFiles(merged)
}

// readDocument is the entries of a clouds.yaml or secure.yaml. Its errors repeat
// nothing of the content.
func readDocument(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of clouds: %w", err)
	}
	var document struct {
		Clouds map[string]any `json:"clouds"`
	}
	if yaml.Unmarshal(data, &document) != nil {
		return nil, fmt.Errorf("%s is no clouds.yaml; expected YAML with an object clouds that has one object for each cloud", file)
	}
	return document.Clouds, nil
}

func listed(clouds map[string]any) string {
	if len(clouds) == 0 {
		return "none; expected an object clouds that has one object for each cloud"
	}
	return strings.Join(slices.Sorted(maps.Keys(clouds)), ", ")
}

// overlay is the object below with what stands above it put over it, at any depth.
func overlay(below, above any) any {
	a, ok := above.(map[string]any)
	b, both := below.(map[string]any)
	switch {
	case above == nil:
		return below
	case !ok || !both:
		return above
	}
	out := maps.Clone(b)
	for k, v := range a {
		out[k] = overlay(b[k], v)
	}
	return out
}

// readFiles takes in the certificates that the entry names.
func (c *credential) readFiles(value any) error {
	object, _ := value.(map[string]any)
	for key, into := range map[string]*string{"cacert": &c.CA, "cert": &c.ClientCertificate, "key": &c.ClientKey} {
		path, _ := object[key].(string)
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%s of the cloud is %q; expected an absolute path", key, path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading %s of the cloud: %w", key, err)
		}
		*into = string(data)
	}
	return nil
}
