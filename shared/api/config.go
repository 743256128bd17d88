package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Digest names the content of a configuration: SHA-256 over its JSON without the
// generation. Two documents with one digest ask for the same state; it is the
// ETag of GET /v1/node/config.
func (c NodeConfig) Digest() string {
	c.Generation = 0
	b, err := json.Marshal(c)
	if err != nil {
		panic("api: a NodeConfig always has a JSON form: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Files are the files of the controller that the document names, each once.
func (c *NodeConfig) Files() []FileReference {
	var files []FileReference
	add := func(f *FileReference) {
		if f != nil && !slices.Contains(files, *f) {
			files = append(files, *f)
		}
	}
	if c.Registry != nil {
		add(c.Registry.Image.File)
	}
	for i := range c.Registries {
		add(c.Registries[i].CACertificate)
	}
	if c.Kubernetes != nil {
		add(c.Kubernetes.KubeadmConfig)
		for i := range c.Kubernetes.ProgramArchives {
			add(&c.Kubernetes.ProgramArchives[i])
		}
		for i := range c.Kubernetes.ImageArchives {
			add(&c.Kubernetes.ImageArchives[i])
		}
	}
	if c.PodNetwork != nil {
		add(c.PodNetwork.Manifest)
	}
	return files
}

// Condition is the condition of the given type, nil if it is not reported.
func (s *NodeStatus) Condition(conditionType string) *Condition {
	if s == nil {
		return nil
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == conditionType {
			return &s.Conditions[i]
		}
	}
	return nil
}
