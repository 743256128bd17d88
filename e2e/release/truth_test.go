package release

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"

	"github.com/nodehitch/nodehitch/e2e/results"
)

func gunzip(t *testing.T, content []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestChecksums(t *testing.T) {
	results.Begin(t, suite, "checksums", "SHA256SUMS has each file of the release")
	dist := built(t)
	files, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for _, f := range files {
		if f.IsDir() || f.Name() == "SHA256SUMS" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dist, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256(content), f.Name())
	}
	got, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil || string(got) != want {
		t.Errorf("SHA256SUMS is (%v)\n%swant\n%s", err, got, want)
	}
}

// The SBOM and the notices name the modules that are in the programs of the packages.
func TestSBOM(t *testing.T) {
	c := results.Begin(t, suite, "sbom", "the SBOM has the programs of the packages with their modules, and so have the notices")
	f, err := os.Open(filepath.Join(built(t), "nodehitch_7.8.9.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	document, err := spdxjson.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	elements := map[spdx.ElementID]*spdx.Package{}
	for _, p := range document.Packages {
		elements[p.PackageSPDXIdentifier] = p
	}
	for _, name := range []string{"nodehitch-agent", "nodehitch-controller", "hitchctl"} {
		deb := filepath.Join(built(t), name+"_7.8.9-1_amd64.deb")
		program := file(t, deb, "/usr/bin/"+name)
		id := find(t, document, name, fmt.Sprintf("%x", sha256.Sum256(program)))
		info, err := buildinfo.Read(bytes.NewReader(program))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"pkg:golang/std@" + info.GoVersion}
		notices := gunzip(t, file(t, deb, "/usr/share/doc/"+name+"/third-party-notices.gz"))
		for _, m := range info.Deps {
			want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
			if !strings.Contains(notices, "==== "+m.Path+" "+m.Version+": ") {
				t.Errorf("the notices of %s have no license of %s %s", name, m.Path, m.Version)
			}
		}
		var got []string
		for _, r := range document.Relationships {
			if r.RefA.ElementRefID == id && r.Relationship == spdx.RelationshipDependsOn {
				got = append(got, elements[r.RefB.ElementRefID].PackageExternalReferences[0].Locator)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) || len(got) < 10 {
			t.Errorf("%s depends on %q, want %q", name, got, want)
		}
		c.Figure(name, "%d modules", len(got))
	}
}

// find is the element that describes a program with this SHA-256.
func find(t *testing.T, d *spdx.Document, name, digest string) spdx.ElementID {
	t.Helper()
	for _, p := range d.Packages {
		if p.PackageName == name && len(p.PackageChecksums) == 1 && p.PackageChecksums[0].Value == digest {
			return p.PackageSPDXIdentifier
		}
	}
	t.Fatalf("the SBOM has no %s with the SHA-256 %s", name, digest)
	return ""
}

// The tree at another path, compiled anew with nothing in Go's cache, by somebody with another
// umask, language and time zone.
func TestBuiltTwice(t *testing.T) {
	c := results.Begin(t, suite, "built twice", "another copy of the tree, with an empty cache and another environment, gives the same bytes")
	results.LongOnly(t)
	source := filepath.Join(t.TempDir(), "elsewhere")
	cache := t.TempDir()
	before := syscall.Umask(0o077)
	err := build(t, source, "GOCACHE="+cache, "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8")
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	var sums [2][]byte
	for i, dist := range []string{built(t), filepath.Join(source, "dist")} {
		if sums[i], err = os.ReadFile(filepath.Join(dist, "SHA256SUMS")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(sums[0], sums[1]) {
		t.Errorf("the first build gave\n%sthe second\n%s", sums[0], sums[1])
	}
	c.Figure("the same", "%d files", bytes.Count(sums[0], []byte("\n")))
}
