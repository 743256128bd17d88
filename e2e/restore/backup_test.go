package restore

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// badBackup is an input of restore that must be refused and change nothing.
type badBackup struct {
	name string
	// spoil changes the backup, or the machine that it is restored on.
	spoil func(w *controller, content []byte) []byte
	says  string
}

func TestBadBackupsChangeNothing(t *testing.T) {
	w := begin(t, "bad backups", "a backup that is cut off, damaged, changed, or of another controller is refused with a reason, and nothing is changed")
	content, err := os.ReadFile(w.backup())
	w.must(err)
	w.Must("create", "token", "after-the-backup")
	w.End(syscall.SIGTERM)
	before := w.dataDirectory()
	for _, c := range append(cutsAndFlips(content),
		badBackup{"an empty file", func(*controller, []byte) []byte { return nil }, "without checksums"},
		badBackup{"another file", func(w *controller, _ []byte) []byte { return bytes.Repeat([]byte("no backup "), 1000) }, "no backup"},
		badBackup{"another tar", func(*controller, []byte) []byte { return archived(map[string]string{"etc/passwd": "x"}) }, "no backup of a nodehitch controller"},
		badBackup{"something behind it", func(_ *controller, b []byte) []byte { return rewritten(w, b, appended) }, "follows checksums"},
		badBackup{"changed with its sums", func(_ *controller, b []byte) []byte { return rewritten(w, b, resummed) }, "not made with the controller's key"},
		badBackup{"of another schema", func(_ *controller, b []byte) []byte { return rewritten(w, b, newer) }, "this one reads version"},
		badBackup{"of another form", func(_ *controller, b []byte) []byte { return rewritten(w, b, anotherForm) }, "its format has version 3"},
		badBackup{"of another controller", func(_ *controller, b []byte) []byte { return foreign(w) }, "sealed with the key"},
	) {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bad.tar")
			w.must(os.WriteFile(file, c.spoil(w, bytes.Clone(content)), 0o600))
			out, err := w.restore("--replace", file)
			if err == nil || !strings.Contains(out, c.says) || !strings.Contains(out, file) {
				t.Errorf("%v: %s, want an error that names the file and says %q", err, out, c.says)
			}
			w.unchanged(before)
		})
	}
}

func TestRestoreIsRefused(t *testing.T) {
	w := begin(t, "restore is refused", "a restore over a running controller, or over a store without --replace, is refused with a reason")
	file := w.backup()
	out, err := w.restore("--replace", file)
	if err == nil || !strings.Contains(out, "held by another process") || !strings.Contains(out, "nodehitch-contr") {
		t.Errorf("beside a running controller: %v, %s", err, out)
	}
	w.End(syscall.SIGTERM)
	before := w.dataDirectory()
	out, err = w.restore(file)
	if err == nil || !strings.Contains(out, "--replace") {
		t.Errorf("over a store: %v, %s", err, out)
	}
	w.unchanged(before)
	w.Start()
}

// cutsAndFlips are backups that end early and such with one changed bit, at places
// of every kind.
func cutsAndFlips(content []byte) (list []badBackup) {
	for _, at := range []int{1, 511, 700, 1600, len(content) / 2, len(content) - 2500, len(content) - 1536} {
		list = append(list, badBackup{fmt.Sprintf("cut off at %d of %d", at, len(content)),
			func(_ *controller, b []byte) []byte { return b[:at] }, "the backup was cut off"})
	}
	for _, name := range []string{"manifest.json", "records.jsonl", "blobs/", "checksums"} {
		list = append(list, badBackup{"one bit of " + name, func(w *controller, b []byte) []byte {
			b[contentOf(w, b, name)+3] ^= 1
			return b
		}, "nothing was changed"})
	}
	return list
}

// contentOf is where the content of an entry begins.
func contentOf(w *controller, backup []byte, name string) int {
	for from := 0; ; {
		at := bytes.Index(backup[from:], []byte(name)) + from
		if at < from {
			w.t.Fatalf("the backup has no %s", name)
		}
		if at%512 == 0 {
			return at + 512
		}
		from = at + 1
	}
}

// entry is a file of a backup.
type entry struct {
	name    string
	content []byte
}

func entriesOf(w *controller, backup []byte) (list []entry) {
	for r := tar.NewReader(bytes.NewReader(backup)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		w.must(err)
		content, err := io.ReadAll(r)
		w.must(err)
		list = append(list, entry{h.Name, content})
	}
}

func rewritten(w *controller, backup []byte, change func([]entry) []entry) []byte {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, e := range change(entriesOf(w, backup)) {
		w.must(out.WriteHeader(&tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: 0o600}))
		_, err := out.Write(e.content)
		w.must(err)
	}
	w.must(out.Close())
	return b.Bytes()
}

func archived(files map[string]string) []byte {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for name, text := range files {
		_ = out.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600})
		_, _ = out.Write([]byte(text))
	}
	_ = out.Close()
	return b.Bytes()
}

func appended(list []entry) []entry { return append(list, entry{"more", []byte("x")}) }

// resummed adds a package file and recomputes the sums, all but the MAC.
func resummed(list []entry) []entry {
	blob := []byte("#!/bin/sh\nrm -rf /\n")
	sum := sha256.Sum256(blob)
	last := list[len(list)-1]
	list = append(list[:len(list)-1], entry{"blobs/" + hex.EncodeToString(sum[:]), blob})
	manifest := map[string]any{}
	_ = json.Unmarshal(list[0].content, &manifest)
	manifest["packageFiles"] = manifest["packageFiles"].(float64) + 1
	list[0].content, _ = json.Marshal(manifest)
	var sums bytes.Buffer
	for _, e := range list {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(e.content), e.name)
	}
	_, mac, _ := bytes.Cut(last.content, []byte("# "))
	return append(list, entry{"checksums", append(append(sums.Bytes(), "# "...), mac...)})
}

func newer(list []entry) []entry {
	list[0].content = bytes.Replace(list[0].content, []byte(`"schema": `), []byte(`"schema": 9`), 1)
	return list
}

func anotherForm(list []entry) []entry {
	list[0].content = bytes.Replace(list[0].content, []byte(`"format": 2`), []byte(`"format": 3`), 1)
	return list
}

// foreign is a backup of a controller with another key.
func foreign(w *controller) []byte {
	other := begin(w.t.(*testing.T), "a controller with another key", "its backup is not taken by the first")
	content, err := os.ReadFile(other.backup())
	w.must(err)
	return content
}

// dataDirectory is all that is in it, by path.
func (w *controller) dataDirectory() parts {
	w.t.Helper()
	all := parts{}
	w.must(filepath.WalkDir(w.Data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	}))
	return all
}

// unchanged counts what of the data directory is not as it was.
func (w *controller) unchanged(before parts) {
	w.t.Helper()
	if before[filepath.Join(w.Data(), "store.db")] == "" {
		w.t.Fatal("there was no store to change")
	}
	after := w.dataDirectory()
	w.c.Lost(before.missing(after))
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if was, there := before[path]; !there || was != after[path] {
			w.t.Errorf("%s is new or changed", path)
		}
	}
	for path := range before {
		if _, there := after[path]; !there {
			w.t.Errorf("%s is gone", path)
		}
	}
}
