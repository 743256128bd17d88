package document_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// FuzzDecode asserts that a document is taken or has faults, that what is taken
// is the same when it is written and read again (as last known good is), and that
// nothing of it can end a line of /etc/exports or of a unit.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.ReplaceAll(good, `"rw"`, `"rw) *(rw"`)))
	f.Add([]byte("apiVersion: nodehitch/v1\nrole: storage\nstorage: {}\n"))
	f.Add([]byte(goodRegistries))
	f.Add([]byte(goodRegistry))
	f.Add([]byte(clusterDocument))
	f.Add([]byte(kubernetesDocument))
	f.Fuzz(func(t *testing.T, content []byte) {
		doc, err := document.Decode(content)
		if err != nil {
			var faults fault.List
			if doc != nil || !errors.As(err, &faults) || len(faults) == 0 {
				t.Errorf("%+v with %v", doc, err)
			}
			return
		}
		written, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := document.Decode(written); err != nil || again.Digest() != doc.Digest() {
			t.Errorf("written and read again: %+v, %v", again, err)
		}
		words(t, doc)
	})
}

// words wants each value that becomes one word of a file or an argv to be one word.
func words(t *testing.T, doc *api.NodeConfig) {
	t.Helper()
	if s := doc.Storage; s != nil {
		for _, v := range s.Volumes {
			oneWord(t, v.MountPath, v.VolumeID, v.FilesystemUUID)
		}
		for _, e := range s.Exports {
			oneWord(t, append(e.Options, e.Directory, e.Client)...)
		}
	}
	if r := doc.Registry; r != nil {
		oneWord(t, r.DataDirectory)
		if r.Image.File == nil {
			oneWord(t, r.Image.Reference)
		}
	}
	for _, r := range doc.Registries {
		oneWord(t, r.Server)
		if strings.Contains(r.Server, "/") {
			t.Errorf("took the server %q, which is a path", r.Server)
		}
		if r.HostsEntry != nil {
			oneWord(t, append(r.HostsEntry.Names, r.HostsEntry.Address)...)
		}
	}
	if s := doc.Kubernetes; s != nil {
		oneWord(t, s.Version)
		if s.ImageRepository != "" {
			oneWord(t, s.ImageRepository)
		}
	}
	for _, f := range doc.Files() {
		if len(f.Sha256) != 64 || strings.Trim(f.Sha256, "0123456789abcdef") != "" {
			t.Errorf("took the digest %q, which becomes a file's name", f.Sha256)
		}
	}
}

func oneWord(t *testing.T, values ...string) {
	t.Helper()
	for _, value := range values {
		if value == "" || strings.ContainsAny(value, "\n\r\x00 \t") {
			t.Errorf("took %q", value)
		}
	}
}
