package params_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/params"
)

// archive is a tar of names and contents in turn.
func archive(t *testing.T, entries ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for entry := range slices.Chunk(entries, 2) {
		if err := w.WriteHeader(&tar.Header{Name: entry[0], Mode: 0o644, Size: int64(len(entry[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, entry[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipped(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tagged(tags string) string {
	return `[{"RepoTags":` + tags + `}]`
}

// saved is a manifest.json as docker save writes it.
const saved = `[{"Config":"c.json","RepoTags":["registry:latest"],"Layers":["l/layer.tar"]}]`

func ociTagged(key, name string) string {
	return `{"schemaVersion":2,"manifests":[{"digest":"sha256:aa","annotations":{"` + key + `":"` + name + `"}}]}`
}

func TestImages(t *testing.T) {
	layer := strings.Repeat("layer", 5000)
	docker := archive(t, "l/layer.tar", layer, "c.json", `{"architecture":"arm64"}`, "manifest.json", saved, "repositories", "{}")
	for name, test := range map[string]struct{ content, references, fault, warning string }{
		"as docker save writes it":       {content: docker, references: "registry:latest"},
		"by gzip":                        {content: gzipped(t, docker), references: "registry:latest"},
		"names that begin with ./":       {content: archive(t, "./manifest.json", tagged(`["registry:2"]`)), references: "registry:2"},
		"the full name":                  {content: archive(t, "manifest.json", tagged(`["alpine:3","docker.io/library/registry:2.8"]`)), references: "registry:2.8"},
		"several":                        {content: archive(t, "manifest.json", `[{"RepoTags":["registry:2"]},{"RepoTags":null},{"RepoTags":["registry:latest"]}]`), references: "registry:2 registry:latest"},
		"both layouts":                   {content: archive(t, "index.json", ociTagged("io.containerd.image.name", "x:1"), "manifest.json", tagged(`["registry:2"]`)), references: "registry:2"},
		"OCI":                            {content: archive(t, "blobs/sha256/aa", "{}", "index.json", ociTagged("io.containerd.image.name", "docker.io/library/registry:2")), references: "registry:2", warning: "OCI layout without manifest.json"},
		"OCI, reference only":            {content: archive(t, "blobs/sha256/aa", "{}", "index.json", ociTagged("org.opencontainers.image.ref.name", "registry:2")), references: "registry:2", warning: "OCI layout"},
		"OCI, tag only":                  {content: archive(t, "index.json", ociTagged("org.opencontainers.image.ref.name", "latest")), fault: `no image tagged registry (found: "latest")`},
		"a layer is missing":             {content: archive(t, "manifest.json", saved, "c.json", "{}"), fault: `lacks "l/layer.tar", which is part of registry:latest`},
		"the configuration is missing":   {content: archive(t, "manifest.json", saved, "l/layer.tar", layer), fault: `lacks "c.json"`},
		"a layer of another is missing":  {content: archive(t, "manifest.json", `[{"RepoTags":["registry:2"]},{"RepoTags":["alpine:3"],"Layers":["away"]}]`), references: "registry:2"},
		"of no agent's architecture":     {content: archive(t, "c.json", `{"architecture":"mips"}`, "l/layer.tar", layer, "manifest.json", saved), references: "registry:latest", fault: `for the architecture "mips"; expected`},
		"OCI, a blob is missing":         {content: archive(t, "index.json", ociTagged("io.containerd.image.name", "registry:2")), fault: `lacks "blobs/sha256/aa"`},
		"OCI, a layer is missing":        {content: archive(t, "blobs/sha256/aa", ociManifest, "blobs/sha256/bb", `{"architecture":"amd64"}`, "index.json", ociTagged("io.containerd.image.name", "registry:2")), fault: `lacks "blobs/sha256/cc"`},
		"a manifest.json of many values": {content: archive(t, "manifest.json", "["+strings.Repeat("{},", 200_000)+"{}]"), fault: "manifest.json with more than 100000 values"},
		"another image":                  {content: archive(t, "manifest.json", tagged(`["alpine:3","quay.io/x/registry:2","registry-ui:1"]`)), fault: `found: "alpine:3", "quay.io/x/registry:2", "registry-ui:1"`},
		"saved by its id":                {content: archive(t, "manifest.json", tagged(`null`)), fault: "no image tagged registry (found: none)"},
		"a name without tag":             {content: archive(t, "manifest.json", tagged(`["registry"]`)), fault: "no image tagged registry"},
		"a port is no tag":               {content: archive(t, "manifest.json", tagged(`["registry:5000/x"]`)), fault: "no image tagged registry"},
		"some other tar":                 {content: archive(t, "etc/passwd", "x", "a/manifest.json", "[]"), fault: "without manifest.json or index.json"},
		"an empty tar":                   {content: archive(t), fault: "without manifest.json"},
		"a manifest.json of wrong type":  {content: archive(t, "manifest.json", `{"RepoTags":7}`), fault: "manifest.json that cannot be read"},
		"a manifest.json that is huge":   {content: archive(t, "manifest.json", strings.Repeat(" ", 4<<20)+"[]"), fault: "manifest.json larger than"},
		"empty":                          {content: "", fault: "is empty"},
		"a text":                         {content: "hello", fault: "not a tar archive"},
		"a long text":                    {content: layer, fault: "not a tar archive"},
		"a text by gzip":                 {content: gzipped(t, layer), fault: "not a tar archive"},
		"xz":                             {content: "\xfd7zXZ\x00" + layer, fault: "compressed by xz"},
		"zstd":                           {content: "\x28\xb5\x2f\xfd" + layer, fault: "compressed by zstd"},
		"bzip2":                          {content: "BZh9" + layer, fault: "compressed by bzip2"},
		"zip":                            {content: "PK\x03\x04" + layer, fault: "compressed by zip"},
		"cut off":                        {content: docker[:len(docker)/2], fault: "cut off or damaged"},
		"gzip, cut off":                  {content: gzipped(t, docker)[:200], fault: "cut off or damaged"},
		"gzip, cut off at its head":      {content: "\x1f\x8b\x08", fault: "cut off or damaged"},
		"gzip, damaged inside":           {content: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + strings.Repeat("\xff", 100), fault: "cut off or damaged"},
		"gzip, wrong checksum":           {content: flip(gzipped(t, docker), 8), fault: "cut off or damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := check(t, params.UseImage, test.content, nil)
			expect(t, "faults", faults, test.fault)
			expect(t, "warnings", warnings, test.warning)
			image, err := params.ReadImage(strings.NewReader(test.content))
			if got := strings.Join(image.References, " "); got != test.references || (err == nil) != (test.references != "") {
				t.Errorf("references %q, %v; want %q", got, err, test.references)
			}
		})
	}
}

const ociManifest = `{"config":{"digest":"sha256:bb"},"layers":[{"digest":"sha256:cc"}]}`

// The architecture is that of the configuration, wherever it stands in the archive.
func TestTheArchitectureOfAnImage(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"docker":                  {archive(t, "c.json", `{"architecture":"arm64"}`, "l/layer.tar", "x", "manifest.json", saved), "arm64"},
		"docker, the index first": {archive(t, "manifest.json", saved, "l/layer.tar", "x", "c.json", `{"architecture":"amd64"}`), "amd64"},
		"OCI": {archive(t, "index.json", ociTagged("io.containerd.image.name", "registry:2"), "blobs/sha256/aa", ociManifest,
			"blobs/sha256/bb", `{"architecture":"s390x","config":{}}`, "blobs/sha256/cc", "x"), "s390x"},
		"unsaid": {archive(t, "manifest.json", saved, "l/layer.tar", "x", "c.json", "{}"), ""},
	} {
		image, err := params.ReadImage(strings.NewReader(test.content))
		if got := strings.Join(image.Architectures, " "); got != test.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}

// flip damages the byte that stands n before the end.
func flip(s string, n int) string {
	b := []byte(s)
	b[len(b)-n] ^= 0xff
	return string(b)
}

// TestALargeImageIsStreamed reads 256 MiB and looks at what was allocated.
func TestALargeImageIsStreamed(t *testing.T) {
	const size = 256 << 20
	reader, writer := io.Pipe()
	go func() {
		w := tar.NewWriter(writer)
		_ = w.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: size})
		_, _ = io.CopyN(w, zeros{}, size)
		manifest := tagged(`["registry:latest"]`)
		_ = w.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o644, Size: int64(len(manifest))})
		_, _ = io.WriteString(w, manifest)
		_ = writer.CloseWithError(w.Close())
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	image, err := params.ReadImage(reader)
	runtime.ReadMemStats(&after)
	if err != nil || len(image.References) != 1 {
		t.Fatal(image, err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
		t.Errorf("allocated %d bytes to read %d", allocated, int64(size))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
