package document_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/shared/fault"
)

const good = `{
  "apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "storage",
  "proxy": {"http": "http://user1:password1@host1:port1"},
  "storage": {
    "volumes": [{"volumeId": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "sizeBytes": 1073741824, "mountPath": "/volume",
                 "filesystem": "ext4", "filesystemUuid": "0f1c1d4e-8a5b-5c0e-9d1f-2a3b4c5d6e7f"}],
    "exports": [{"directory": "/volume/nfs/pv1", "client": "10.10.0.0/24", "options": ["rw", "sync", "anonuid=65534"]}]
  }
}`

func TestGoodDocument(t *testing.T) {
	doc, err := document.Decode([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Generation != 3 || len(doc.Storage.Volumes) != 1 || doc.Storage.Exports[0].Client != "10.10.0.0/24" {
		t.Errorf("got %+v", doc)
	}
}

func TestFaults(t *testing.T) {
	cases := map[string]struct{ old, new, pointer string }{
		"a section of a later agent":   {`"role"`, `"clock": {}, "role"`, "/clock"},
		"another version":              {"nodehitch/v1", "nodehitch/v2", "/apiVersion"},
		"no role":                      {`"role": "storage",`, "", "/role"},
		"a volume id with a path":      {"6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "../../etc/passwd", "/storage/volumes/0/volumeId"},
		"a volume id in upper case":    {"6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "6F1C1D4E-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "/storage/volumes/0/volumeId"},
		"no filesystem UUID":           {"0f1c1d4e-8a5b-5c0e-9d1f-2a3b4c5d6e7f", "", "/storage/volumes/0/filesystemUuid"},
		"another filesystem":           {"ext4", "xfs", "/storage/volumes/0/filesystem"},
		"a mount over the system":      {`"mountPath": "/volume"`, `"mountPath": "/usr"`, "/storage/volumes/0/mountPath"},
		"an export of the root disk":   {"/volume/nfs/pv1", "/srv/pv1", "/storage/exports/0/directory"},
		"an export with a second one":  {"/volume/nfs/pv1", "/volume *(rw)", "/storage/exports/0/directory"},
		"a client with options":        {"10.10.0.0/24", "10.10.0.0/24(rw,no_root_squash)", "/storage/exports/0/client"},
		"an option that ends the list": {"sync", "sync) *(rw", "/storage/exports/0/options/1"},
		"a mountpoint of its own":      {"sync", "mountpoint=/", "/storage/exports/0/options/1"},
		"an option that loses data":    {"sync", "async", "/storage/exports/0/options/1"},
		"options against each other":   {"sync", "ro", "/storage/exports/0/options/1"},
		"a mount over keys":            {`"mountPath": "/volume"`, `"mountPath": "/home/ubuntu/.ssh"`, "/storage/volumes/0/mountPath"},
		"a mount over sudo's state":    {`"mountPath": "/volume"`, `"mountPath": "/var/lib/sudo"`, "/storage/volumes/0/mountPath"},
		"a mount over polkit's rules":  {`"mountPath": "/volume"`, `"mountPath": "/var/lib/polkit-1/localauthority"`, "/storage/volumes/0/mountPath"},
		"an NFS client with a choice":  {`"role"`, `"nfsClient": {"version": 4}, "role"`, "/nfsClient/version"},
		"a proxy on two lines":         {"http://user1:password1@host1:port1", `x\ny`, "/proxy/http"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := document.Decode([]byte(text))
			var faults fault.List
			if !errors.As(err, &faults) || faults[0].Pointer != c.pointer {
				t.Errorf("got %v, want a fault at %s", err, c.pointer)
			}
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	text := strings.NewReplacer("nodehitch/v1", "v9", "ext4", "xfs", "10.10.0.0/24", "a b").Replace(good)
	_, err := document.Decode([]byte(text))
	var faults fault.List
	if !errors.As(err, &faults) {
		t.Fatalf("got %v", err)
	}
	var at []string
	for _, f := range faults {
		at = append(at, f.Pointer)
	}
	if diff := cmp.Diff([]string{"/apiVersion", "/storage/volumes/0/filesystem", "/storage/exports/0/client"}, at); diff != "" {
		t.Error(diff)
	}
}

func TestTwoVolumesAtOnePlace(t *testing.T) {
	text := strings.Replace(good, `"volumes": [`, `"volumes": [{"volumeId": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e70", "mountPath": "/volume/nfs",
		"filesystem": "ext4", "filesystemUuid": "0f1c1d4e-8a5b-5c0e-9d1f-2a3b4c5d6e70"}, `, 1)
	if _, err := document.Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "/storage/volumes/1/mountPath") {
		t.Errorf("got %v", err)
	}
}

// hasFaults decodes a document in which old is replaced by other, and compares where its faults are. It
// returns what they say.
func hasFaults(t *testing.T, text, old, other string, pointers []string) (said string) {
	t.Helper()
	changed := strings.Replace(text, old, other, 1)
	if changed == text {
		t.Fatal("the case changes nothing")
	}
	_, err := document.Decode([]byte(changed))
	var faults fault.List
	if !errors.As(err, &faults) {
		t.Fatalf("got %v", err)
	}
	var at []string
	for _, f := range faults {
		at = append(at, f.Pointer)
	}
	if diff := cmp.Diff(pointers, at); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	return err.Error()
}
