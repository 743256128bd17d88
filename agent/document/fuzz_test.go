package document_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// FuzzDecode asserts that a document is taken or has faults, that what is taken
// is the same when it is written and read again (as last known good is), and that
// nothing of it can end a line of /etc/exports or of a unit.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(strings.ReplaceAll(good, `"rw"`, `"rw) *(rw"`)))
	f.Add([]byte("apiVersion: nodehitch/v1\nrole: storage\nstorage: {}\n"))
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
		if doc.Storage == nil {
			return
		}
		for _, v := range doc.Storage.Volumes {
			oneWord(t, v.MountPath, v.VolumeID, v.FilesystemUUID)
		}
		for _, e := range doc.Storage.Exports {
			oneWord(t, append(e.Options, e.Directory, e.Clients)...)
		}
	})
}

func oneWord(t *testing.T, values ...string) {
	t.Helper()
	for _, value := range values {
		if value == "" || strings.ContainsAny(value, "\n\r\x00 \t") {
			t.Errorf("took %q", value)
		}
	}
}
