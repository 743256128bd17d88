package release

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/version"
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
	dist := built(t).dist
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
	release := built(t)
	f, err := os.Open(filepath.Join(release.dist, "nodehitch_"+release.version+".spdx.json"))
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
		deb := release.deb(name, "amd64")
		program := file(t, deb, "/usr/bin/"+name)
		element := find(t, document, name, fmt.Sprintf("%x", sha256.Sum256(program)))
		if is, err := version.Of(bytes.NewReader(program)); err != nil || is == "" || element.PackageVersion != is {
			t.Errorf("the SBOM has %s %s, and the program is of %q, %v", name, element.PackageVersion, is, err)
		}
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
		for _, embedded := range embeddedIn(t, name) {
			if !strings.Contains(notices, "==== npm "+embedded.Package+" "+embedded.Version+": ") {
				t.Errorf("the notices of %s have no license of %s %s", name, embedded.Package, embedded.Version)
			}
			contained := slices.ContainsFunc(document.Relationships, func(r *spdx.Relationship) bool {
				return r.RefA.ElementRefID == element.PackageSPDXIdentifier && r.Relationship == spdx.RelationshipContains &&
					elements[r.RefB.ElementRefID].PackageExternalReferences[0].Locator == "pkg:npm/"+embedded.Package+"@"+embedded.Version
			})
			if !contained {
				t.Errorf("the SBOM does not say that %s contains %s %s", name, embedded.Package, embedded.Version)
			}
		}
		var got []string
		for _, r := range document.Relationships {
			if r.RefA.ElementRefID == element.PackageSPDXIdentifier && r.Relationship == spdx.RelationshipDependsOn {
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

// embedded is a file of npm's in a program.
type embedded struct{ Package, Version string }

// embeddedIn are the files of others that a program embeds.
func embeddedIn(t *testing.T, program string) (list []embedded) {
	t.Helper()
	if program != "nodehitch-controller" {
		return nil
	}
	text, err := os.ReadFile("../../controller/ui/page/assets/vendored.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) < 2 {
		t.Fatalf("%d embedded files (%v)", len(list), err)
	}
	return list
}

// find is the element that describes a program with this SHA-256.
func find(t *testing.T, d *spdx.Document, name, digest string) *spdx.Package {
	t.Helper()
	for _, p := range d.Packages {
		if p.PackageName == name && len(p.PackageChecksums) == 1 && p.PackageChecksums[0].Value == digest {
			return p
		}
	}
	t.Fatalf("the SBOM has no %s with the SHA-256 %s", name, digest)
	return nil
}
