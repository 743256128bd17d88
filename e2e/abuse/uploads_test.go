package abuse

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/client/testca"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

const (
	uploaders  = 24
	uploadSize = 900_000
	// perValue is what a value of a file takes of memory while the file is checked, with all
	// that is thrown away on the way.
	perValue = 2560
)

// packageFile is a kind of file of a VNF package: where the parameters name it, and contents
// that cost far more than their size.
type packageFile struct {
	kind     string
	params   func() map[string]any
	contents []string
}

const hostilePath = "Files/hostile"

func clusterWith(member string, value any) map[string]any {
	params := loopback.StorageParams()
	loopback.ClusterOf(params)[member] = value
	return params
}

func packageFiles(t *testing.T) []packageFile {
	list := func(part string, size int) string { return "[" + fill(part, size) + "]" }
	long := strings.Repeat("k", 1000)
	return []packageFile{
		{"manifests", func() map[string]any {
			return clusterWith("pv_registration_params", []any{map[string]any{"pv_manifest_file_path": hostilePath, "nfs_server_cp": "storage_server_CP"}})
		}, []string{
			list("{a: b},", uploadSize),
			list("{a: b},", 7*jsontree.MaxValues/3-100),
			list("[],", uploadSize),
			"a: &a " + fill("x", uploadSize-10_000) + "\nb: " + list("*a,", 2_000) + "\n",
			strings.Repeat("{"+long+": ", 90) + list("{},", 90_000) + strings.Repeat("}", 90),
			fill("--- a\n", uploadSize),
		}},
		{"certificates", func() map[string]any {
			return clusterWith("private_registry_connection_info", []any{map[string]any{"connection_type": "1", "server": "registry.example.com:5000", "certificate_path": hostilePath}})
		}, []string{
			fill(string(testca.Root(t, "hostile").PEM()), uploadSize),
			fill("-----BEGIN CERTIFICATE-----\n", uploadSize),
		}},
		{"images", func() map[string]any {
			return map[string]any{"private_registry_installation_param": map[string]any{"ssh_cp_name": "CP1", "image_path": hostilePath}}
		}, []string{
			tarOf(t, "manifest.json", list("{},", uploadSize)+"]"),
			tarOf(t, "manifest.json", `[{"RepoTags":["registry:latest"],"Layers":[`+fill(`"a",`, 4*jsontree.MaxValues-1000)+`"a"]}]`),
			gzipOf(t, 64*mib),
		}},
		{"scripts", func() map[string]any { return clusterWith("helm_installation_script_path", hostilePath) }, []string{fill("\x00", uploadSize)}},
	}
}

func tarOf(t *testing.T, name, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// gzipOf is a small archive that unpacks to a file of this size.
func gzipOf(t *testing.T, size int) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, tarOf(t, "layer.tar", strings.Repeat("\x00", size))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestUploads uploads hostile files of each kind, 24 at a time, each for an instance of its own.
// The controller checks as many at a time as it has turns, and a check is bounded by the number
// of values: the bound follows from that.
func TestUploads(t *testing.T) {
	for _, f := range packageFiles(t) {
		t.Run(f.kind, func(t *testing.T) {
			c := results.Begin(t, "abuse", "uploads: "+f.kind, "memory is bounded while 24 hostile files are uploaded at a time")
			a := open(t, c)
			for i := range uploaders {
				a.PutParams(instanceOf(i), f.params(), nil)
			}
			answered := atomic.Int64{}
			w := a.during(func() {
				together(uploaders, func(i int) {
					content := f.contents[i%len(f.contents)]
					status, answer := a.send(i, a.unauthenticated, head("PUT", "/v1/vnf_instances/"+instanceOf(i)+"/files/"+hostilePath, a.operator, len(content)), strings.NewReader(content))
					if status != http.StatusCreated {
						t.Errorf("the upload of content %d is answered %d %.300q", i%len(f.contents), status, answer)
						return
					}
					answered.Add(1)
				})
			})
			turns := int64(max(1, runtime.NumCPU()/2))
			c.Figure("uploads", "%d of %d bytes; %d answered", uploaders, len(f.contents[0]), answered.Load())
			w.most = max(w.most, a.Usage().Peak)
			a.grew(w, turns*jsontree.MaxValues*perValue+uploaders*mib)
		})
	}
}

func instanceOf(i int) string { return fmt.Sprintf("0b1a5c2e-7c53-4d86-9f0a-%012d", i) }
