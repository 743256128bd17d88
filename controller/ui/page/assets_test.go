package page_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/controller/ui/page/pagetest"
)

// vendored is a file from a package of npm.
type vendored struct {
	File, SHA256, LicenseFile         string
	Package, Version, From, Integrity string
}

func vendoredFiles(t *testing.T) (list []vendored) {
	t.Helper()
	text, err := os.ReadFile("assets/vendored.json")
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) != 2 {
		t.Fatalf("%d vendored files (%v)", len(list), err)
	}
	return list
}

func TestVendoredFilesAreThoseOfTheList(t *testing.T) {
	for _, v := range vendoredFiles(t) {
		content, err := os.ReadFile("assets/" + v.File)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != v.SHA256 {
			t.Errorf("%s has the SHA-256 %s, expected %s", v.File, got, v.SHA256)
		}
		if license, err := os.ReadFile("assets/" + v.LicenseFile); err != nil || !bytes.Contains(license, []byte("Permission to use, copy, modify")) {
			t.Errorf("%s has no license (%v)", v.File, err)
		}
	}
}

// The packages of npm have the integrity of the list, and the files that are embedded.
func TestVendoredFilesAreThoseOfNpm(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm on this machine, so its packages are not compared")
	}
	for _, v := range vendoredFiles(t) {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), npm, "pack", "--silent", v.Package+"@"+v.Version)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("npm does not answer, so its packages are not compared: %v %s", err, output)
		}
		packed, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
		if len(packed) != 1 {
			t.Fatalf("npm pack wrote %q", packed)
		}
		archive, err := os.ReadFile(packed[0])
		if err != nil {
			t.Fatal(err)
		}
		sum := sha512.Sum512(archive)
		if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != v.Integrity {
			t.Errorf("%s %s has the integrity %s, expected %s", v.Package, v.Version, got, v.Integrity)
		}
		for packed, embedded := range map[string]string{v.From: v.File, "LICENSE": v.LicenseFile} {
			want := unpacked(t, archive, "package/"+packed)
			if got, err := os.ReadFile("assets/" + embedded); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not %s of %s %s (%v)", embedded, packed, v.Package, v.Version, err)
			}
		}
	}
}

// unpacked is a file of a package.
func unpacked(t *testing.T, archive []byte, name string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Name == name {
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
	}
}

// The name of an asset has its digest, and nothing else opens it.
func TestAnAssetIsNamedByItsContent(t *testing.T) {
	found := 0
	for _, line := range strings.Fields(written(t, pagetest.Empty(), page.PathOverview, false)) {
		_, path, ok := strings.Cut(line, strings.TrimSuffix(page.PathAsset, ":file"))
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(path, `"`)
		content, _, ok := page.Asset(name)
		sum := sha256.Sum256(content)
		if !ok || !strings.Contains(name, "-"+hex.EncodeToString(sum[:8])+".") {
			t.Errorf("%s is not named by its content", name)
		}
		found++
	}
	if found < 5 {
		t.Errorf("%d assets on a page", found)
	}
	for _, name := range []string{"", "style.css", "htmx.LICENSE", "vendored.json", "../page.go", "/style.css"} {
		if _, _, ok := page.Asset(name); ok {
			t.Errorf("%q is an asset", name)
		}
	}
}

// The style sheet and the script ask for nothing from elsewhere, and the script makes no code.
func TestOwnAssetsStayOnThePage(t *testing.T) {
	for file, forbidden := range map[string][]string{
		"style.css": {"@import", "url(http", "url(//", "data:", "expression("},
		"page.js":   {"eval(", "Function(", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", ".style", "http:", "https:"},
		"mark.svg":  {"<script", "style=", "onload", "href"},
	} {
		content, err := os.ReadFile("assets/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range forbidden {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s has %q", file, text)
			}
		}
	}
}

// The script says ages in the words of the server.
func TestTheScriptSaysAgesAsTheServerDoes(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node on this machine, so the script's ages are not compared")
	}
	script, err := os.ReadFile("assets/page.js")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(script), "  function age(seconds) {")
	body, _, _ := strings.Cut(rest, "  function shown(")
	var want []string
	var seconds []float64
	for s := -400000.0; s < 400000; s = s + 1 + max(s, -s)/37 {
		seconds = append(seconds, s)
		at := pagetest.Now.Add(-time.Duration(s * float64(time.Second)))
		want = append(want, describe.Relative(at, pagetest.Now), describe.RelativeMinute(at, pagetest.Now))
	}
	list, _ := json.Marshal(seconds)
	program := "function age(seconds) {" + body + ";" + string(list) + ".forEach(function (s) { console.log(relative(s)); console.log(relativeMinute(s)); });"
	output, err := exec.CommandContext(t.Context(), node, "-e", program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	got := strings.Split(strings.TrimSpace(string(output)), "\n")
	if len(got) != len(want) || len(got) < 100 {
		t.Fatalf("%d ages, expected %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%v seconds are %q, and %q on the server", seconds[i/2], got[i], want[i])
		}
	}
}
