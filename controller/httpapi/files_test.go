package httpapi_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// raw sends a request line as it is, as curl --path-as-is does, over the unix
// socket.
func (w *world) raw(method, target, body string) answer {
	w.t.Helper()
	conn, err := new(net.Dialer).DialContext(w.t.Context(), "unix", w.socket)
	w.must(err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: controller\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", method, target, len(body), body)
	w.must(err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	w.must(err)
	return answer{status: response.StatusCode, header: response.Header, body: string(text)}
}

func TestThePathOfAPackageFileMayBeWrittenEitherWay(t *testing.T) {
	w := newWorld(t)
	base := "/v1/vnf_instances/" + instanceID + "/files/"
	for name, test := range map[string]struct{ target, path string }{
		"plain slashes":      {"Files/kubernetes/a.yaml", "Files/kubernetes/a.yaml"},
		"escaped slashes":    {"Files%2Fkubernetes%2Fb.yaml", "Files/kubernetes/b.yaml"},
		"both":               {"Files/kubernetes%2fc.yaml", "Files/kubernetes/c.yaml"},
		"no slash":           {"d.yaml", "d.yaml"},
		"an escaped blank":   {"Files/e%20f.yaml", "Files/e f.yaml"},
		"an escaped percent": {"Files/100%25.yaml", "Files/100%.yaml"},
		"called files":       {"files/files/files", "files/files/files"},
	} {
		t.Run(name, func(t *testing.T) {
			var file wire.PackageFile
			w.ok(w.raw("PUT", base+test.target, name), http.StatusCreated, &file)
			if file.Path != test.path {
				t.Errorf("stored as %q", file.Path)
			}
			if a := w.raw("GET", base+test.target, ""); a.status != http.StatusOK || a.body != name {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	for _, target := range []string{"../../etc/passwd", "..%2f..%2fetc/passwd", "%2fetc/passwd", "a//b", "a/./b", "", "a/", "a%00b"} {
		if a := w.raw("PUT", base+target, "x"); a.status != http.StatusBadRequest && a.status != http.StatusNotFound {
			t.Errorf("%q: %d %s", target, a.status, a.body)
		}
	}
}

func TestAFileGoesUpAndDownInParts(t *testing.T) {
	w := newWorld(t)
	path := "/v1/vnf_instances/" + instanceID + "/files/Files/images/registry.tar"
	content := strings.Repeat("0123456789", 1000)
	sum := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(sum[:])
	put := func(body string, headers ...string) answer {
		return w.as(w.operator, "PUT", path, body, append(headers, "Content-Type: application/octet-stream")...)
	}
	if a := put(content[:4000], "Content-Range: bytes 0-3999/10000"); a.status != http.StatusPermanentRedirect || a.header.Get("Range") != "bytes=0-3999" {
		t.Errorf("the first part: %d %v", a.status, a.header)
	}
	if a := put("", "Content-Range: bytes */10000"); a.status != http.StatusPermanentRedirect || a.header.Get("Range") != "bytes=0-3999" {
		t.Errorf("asked: %d %v", a.status, a.header)
	}
	if a := w.as(w.operator, "GET", path, ""); a.status != http.StatusNotFound {
		t.Errorf("half of it: %d", a.status)
	}
	var file wire.PackageFile
	w.ok(put(content[4000:], "Content-Range: bytes 4000-9999/10000"), http.StatusCreated, &file)
	if file.Sha256 != digest || file.SizeBytes != 10000 {
		t.Errorf("%+v", file)
	}
	a := w.as(w.operator, "GET", path, "", "Range: bytes=9990-")
	if a.status != http.StatusPartialContent || a.body != "0123456789" || a.header.Get("ETag") != `"`+digest+`"` {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := w.as(w.operator, "GET", path, "", `If-None-Match: "`+digest+`"`); a.status != http.StatusNotModified {
		t.Errorf("known: %d", a.status)
	}
	if a := w.as(w.operator, "GET", path, ""); a.body != content || a.header.Get("Content-Length") != "10000" {
		t.Errorf("whole: %d bytes", len(a.body))
	}
}

func TestUploadsThatCannotBeAreRefused(t *testing.T) {
	w := newWorld(t)
	path := "/v1/vnf_instances/" + instanceID + "/files/a"
	if a := w.as(w.operator, "PUT", path, strings.Repeat("x", 1<<20+1)); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d %s", a.status, a.body)
	}
	if a := w.as(w.operator, "PUT", path, "abc", "X-Checksum-Sha256: "+strings.Repeat("0", 64)); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.problem.Detail, "expected 000") {
		t.Errorf("another digest: %d %s", a.status, a.body)
	}
	if a := w.as(w.operator, "PUT", path, "abc", "X-Checksum-Sha256: abc"); a.status != http.StatusBadRequest || !strings.Contains(a.problem.Detail, "X-Checksum-Sha256") {
		t.Errorf("no digest: %d %s", a.status, a.body)
	}
}

func TestAFileShowsWhatIsWrongWithItAndIsMissingNoMore(t *testing.T) {
	w := newWorld(t)
	withManifest := strings.Replace(spec, `"nfs_server_setup_params"`, `"x": 1, "nfs_server_setup_params"`, 1)
	withManifest = strings.Replace(withManifest, `"storage_server":`, `"pv_registration_params": [{"pv_manifest_file_path": "Files/pv.yaml", "nfs_server_cp": "storage_server_CP"}], "storage_server":`, 1)
	var instance wire.Instance
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID, withManifest), http.StatusCreated, &instance)
	if len(instance.MissingFiles) != 2 {
		t.Fatalf("%v", instance.MissingFiles)
	}
	var file wire.PackageFile
	w.ok(w.as(w.operator, "PUT", "/v1/vnf_instances/"+instanceID+"/files/Files/pv.yaml", "kind: Secret\n"), http.StatusCreated, &file)
	if len(file.Faults) == 0 {
		t.Errorf("no fault: %+v", file)
	}
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, &file)
	w.ok(w.as(w.viewer, "GET", "/v1/vnf_instances/"+instanceID, ""), http.StatusOK, &instance)
	if len(instance.MissingFiles) != 0 || len(instance.Files) != 2 {
		t.Errorf("missing %v of %v", instance.MissingFiles, instance.Files)
	}
}

func TestTheFilesOfADeletedInstanceAreGone(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	w.ok(w.as(w.operator, "DELETE", "/v1/vnf_instances/"+instanceID, ""), http.StatusNoContent, nil)
	if a := w.as(w.operator, "GET", script, ""); a.status != http.StatusNotFound {
		t.Errorf("%d", a.status)
	}
}

// Each upload of a path is answered with its own checksum, whatever the path names since.
func TestUploadsOfOnePathAreAnsweredWithTheirOwnChecksum(t *testing.T) {
	w := newWorld(t)
	w.putInstance()
	var uploads sync.WaitGroup
	for uploader := range 8 {
		uploads.Go(func() {
			for n := range 10 {
				content := fmt.Sprintf("#!/bin/sh\n# %d of %d\n", n, uploader)
				a := w.as(w.operator, "PUT", script, content)
				if sum := sha256.Sum256([]byte(content)); !strings.Contains(a.body, hex.EncodeToString(sum[:])) {
					t.Errorf("the upload of %q is answered with %d %s", content, a.status, a.body)
				}
			}
		})
	}
	uploads.Wait()
}

func TestAFormIsNoFile(t *testing.T) {
	w := newWorld(t)
	for what, header := range map[string]string{
		"curl --upload-file": "Content-Type: application/octet-stream", "curl --form": "Content-Type: multipart/form-data; boundary=x", "a form without its boundary": "Content-Type: Multipart/Form-Data; boundary",
		"curl --data-binary": "Content-Type: application/x-www-form-urlencoded", "compressed": "Content-Encoding: gzip",
	} {
		a := w.as(w.operator, "PUT", script, "#!/bin/sh\n", header)
		switch {
		case what == "curl --upload-file" || what == "curl --data-binary":
			if a.status != http.StatusCreated && a.status != http.StatusOK {
				t.Errorf("%s: %d %s", what, a.status, a.body)
			}
		case a.status != http.StatusUnsupportedMediaType || a.problem.Type != wire.ProblemMediaType:
			t.Errorf("%s: %d %s", what, a.status, a.body)
		case strings.Contains(header, "ultipart") && (!strings.Contains(a.problem.Detail, "curl --upload-file") || a.header.Get("Accept") == ""):
			t.Errorf("%s is not told how to send the file: %s %v", what, a.body, a.header)
		}
	}
}

// A file may come before its instance. If the instance never comes, it need not stay.
func TestAFileWhoseInstanceDoesNotComeCanBeDeletedAndExpires(t *testing.T) {
	w := newWorld(t)
	early, other := "/v1/vnf_instances/"+secondID+"/files/Files/early.yaml", "/v1/vnf_instances/"+secondID+"/files/Files/other.yaml"
	blobs := func() (n int) {
		w.must(filepath.WalkDir(filepath.Join(w.dir, "blobs"), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		}))
		return n
	}
	w.putInstance()
	for path, content := range map[string]string{script: "#!/bin/sh\n", early: "early", other: "other"} {
		w.ok(w.as(w.operator, "PUT", path, content), http.StatusCreated, nil)
	}
	if a := w.as(w.operator, "DELETE", script, ""); a.status != http.StatusConflict || !strings.Contains(a.problem.Detail, "PUT of the file replaces it") {
		t.Errorf("a file of an instance: %d %s", a.status, a.body)
	}
	w.ok(w.as(w.operator, "DELETE", early, ""), http.StatusNoContent, nil)
	for _, method := range []string{"GET", "DELETE"} {
		if a := w.as(w.operator, method, early, ""); a.status != http.StatusNotFound {
			t.Errorf("%s of what was deleted: %d %s", method, a.status, a.body)
		}
	}
	if n := blobs(); n != 2 {
		t.Errorf("%d files are on disk, want 2", n)
	}
	ended, end := context.WithCancel(t.Context())
	end() // Run does once what it does from time to time
	w.ahead.Add(int64(24*time.Hour - time.Minute))
	w.Files.Run(ended)
	w.ok(w.as(w.operator, "GET", other, ""), http.StatusOK, nil)
	w.ahead.Add(int64(2 * time.Minute))
	w.Files.Run(ended)
	if a := w.as(w.operator, "GET", other, ""); a.status != http.StatusNotFound || blobs() != 1 {
		t.Errorf("after a day: %d %s, and %d files are on disk", a.status, a.body, blobs())
	}
	w.ok(w.as(w.operator, "GET", script, ""), http.StatusOK, nil)
}

// What http.ServeContent refuses is a problem, too.
func TestAPartThatAFileDoesNotHaveIsAProblem(t *testing.T) {
	w := newWorld(t)
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, nil)
	a := w.as(w.operator, "GET", script, "", "Range: bytes=100-")
	if a.status != http.StatusRequestedRangeNotSatisfiable || a.problem.Type != wire.ProblemRange || a.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	w.failsCondition("If-Match", w.as(w.operator, "GET", script, "", `If-Match: "x"`))
}

func TestANodeGetsNoFileThatItsConfigurationDoesNotName(t *testing.T) {
	w := newWorld(t)
	node, _ := w.enroll()
	var file wire.PackageFile
	w.ok(w.as(w.operator, "PUT", script, "#!/bin/sh\n"), http.StatusCreated, &file)
	if a := w.call(node, "GET", "/v1/node/files/"+file.Sha256, ""); a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.call(node, "GET", "/v1/node/files/..", ""); a.status != http.StatusBadRequest && a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestTheAgentIsServedForWhatUnameSays(t *testing.T) {
	w := newWorld(t)
	w.write("nodehitch-agent-amd64", "an agent")
	first := w.call(w.client, "GET", "/v1/agent/x86_64", "")
	sum := sha256.Sum256([]byte("an agent"))
	if first.status != http.StatusOK || first.body != "an agent" || first.header.Get("ETag") != `"`+hex.EncodeToString(sum[:])+`"` {
		t.Errorf("%d %v %s", first.status, first.header, first.body)
	}
	if a := w.call(w.client, "GET", "/v1/agent/amd64", "", "If-None-Match: "+first.header.Get("ETag")); a.status != http.StatusNotModified {
		t.Errorf("known: %d", a.status)
	}
	w.write("nodehitch-agent-amd64", "a newer agent")
	if a := w.call(w.client, "GET", "/v1/agent/amd64", "", "If-None-Match: "+first.header.Get("ETag"), "Range: bytes=0-6"); a.status != http.StatusPartialContent || a.body != "a newer" {
		t.Errorf("a newer one: %d %s", a.status, a.body)
	}
	for arch, word := range map[string]string{"aarch64": "put nodehitch-agent-arm64 into its agentDirectory", "vax": "known are aarch64", "..%2fstore.db": "known are"} {
		if a := w.call(w.client, "GET", "/v1/agent/"+arch, ""); a.status != http.StatusNotFound || !strings.Contains(a.problem.Detail, word) || strings.Contains(a.body, w.dir) {
			t.Errorf("%s: %d %s", arch, a.status, a.body)
		}
	}
}
