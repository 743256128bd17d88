// Package registry has container registries for tests, all around Debian's
// docker-registry: as an image file that `docker load` takes, and as processes in
// a lab, with TLS and a login. The images are made without a container engine.
package registry

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// Binary is Debian's registry, of the package docker-registry.
const Binary = "/usr/bin/docker-registry"

// Image is a container image of one layer.
type Image struct {
	// Tags it has in the file, such as "registry:latest".
	Tags []string
	// Files by their absolute paths.
	Files map[string]File
	// Entrypoint and Cmd are what it runs.
	Entrypoint, Cmd []string
}

// File of an image.
type File struct {
	Mode fs.FileMode
	Data []byte
}

// registryConfig is that of the registry's public image: no TLS, no login.
const registryConfig = `version: 0.1
log: {level: warn}
storage:
  cache: {blobdescriptor: inmemory}
  filesystem: {rootdirectory: /var/lib/registry}
  delete: {enabled: true}
http:
  addr: :5000
  headers: {X-Content-Type-Options: [nosniff]}
health:
  storagedriver: {enabled: true, interval: 10s, threshold: 3}
`

// Server is the image registry:latest: Debian's binary with the libraries that it
// needs, and what the registry of the public registries promises: port 5000, data in
// /var/lib/registry. Padding adds a file of so many bytes that do not compress.
func Server(padding int) (Image, error) {
	image := Image{
		Tags:       []string{"registry:latest"},
		Files:      map[string]File{"/etc/docker/registry/config.yml": {0o644, []byte(registryConfig)}},
		Entrypoint: []string{Binary}, Cmd: []string{"serve", "/etc/docker/registry/config.yml"},
	}
	libraries, err := librariesOf(Binary)
	if err != nil {
		return image, err
	}
	for _, file := range append(libraries, Binary) {
		data, err := os.ReadFile(file)
		if err != nil {
			return image, fmt.Errorf("%w: apt-get install docker-registry", err)
		}
		image.Files[file] = File{0o755, data}
	}
	if padding > 0 {
		image.Files["/padding"] = File{0o644, Noise(padding, 1)}
	}
	return image, nil
}

// Small is an image that runs nothing, of a layer of so many bytes that do not compress.
func Small(tag string, size int, seed uint64) Image {
	return Image{Tags: []string{tag}, Files: map[string]File{"/content": {0o644, Noise(size, seed)}}, Cmd: []string{"/content"}}
}

// Noise is bytes that do not compress, the same for the same seed.
func Noise(size int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(data) // never fails
	return data
}

// librariesOf are the shared libraries of a program and its loader, as ldd has them.
func librariesOf(program string) ([]string, error) {
	out, err := exec.Command("ldd", program).Output() //nolint:noctx // it ends at once
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: apt-get install docker-registry", program, err)
	}
	var found []string
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			found = append(found, word)
		}
	}
	return found, nil
}

// ID is what an engine calls the image: the digest of its configuration.
func (i Image) ID() (string, error) {
	layer, err := i.layer()
	if err != nil {
		return "", err
	}
	config, err := i.config(digest(layer))
	return "sha256:" + digest(config), err
}

// digest is a SHA-256 in hexadecimal.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// config is the image's configuration, which names its layer.
func (i Image) config(diffID string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Cmd": i.Cmd,
			"ExposedPorts": map[string]any{"5000/tcp": struct{}{}}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + diffID}},
		"history": []any{map[string]any{"created": time.Unix(0, 0).UTC(), "created_by": "nodehitch tests"}},
	})
}

// Write writes the image as `docker save` does. The same image is the same bytes.
func (i Image) Write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	diffID := digest(layer)
	config, err := i.config(diffID)
	if err != nil {
		return err
	}
	configName := digest(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configName, "RepoTags": i.Tags, "Layers": []string{diffID + "/layer.tar"},
	}})
	if err != nil {
		return err
	}
	return writeTar(w, map[string]File{
		diffID + "/layer.tar": {0o644, layer}, configName: {0o644, config}, "manifest.json": {0o644, manifest},
	})
}

// WriteFile writes the image into a file.
func (i Image) WriteFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := i.Write(f); err != nil {
		return err
	}
	return f.Close()
}

func (i Image) layer() ([]byte, error) {
	var layer bytes.Buffer
	err := writeTar(&layer, i.Files)
	return layer.Bytes(), err
}

// writeTar writes files in the order of their names, with the folders above them.
func writeTar(w io.Writer, files map[string]File) error {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	archive := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for _, name := range names {
		file, name := files[name], strings.TrimPrefix(name, "/")
		if err := makeFolders(archive, path.Dir(name), made); err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(file.Mode.Perm()), Size: int64(len(file.Data)), ModTime: time.Unix(0, 0)}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func makeFolders(archive *tar.Writer, folder string, made map[string]bool) error {
	if made[folder] {
		return nil
	}
	if err := makeFolders(archive, path.Dir(folder), made); err != nil {
		return err
	}
	made[folder] = true
	return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
}
