package csar_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/controller/hitchctl/csar"
	"github.com/nodehitch/nodehitch/shared/client"
)

// options are those of a package with everything that it can have.
func options(t *testing.T, template string, api hot.API) csar.Options {
	t.Helper()
	return csar.Options{
		Template: template, FlavourID: "simple", API: api, Types: os.DirFS("testdata/types"),
		Files: fstest.MapFS{
			"Files/images/debian.qcow2":  {Data: []byte("QFI image"), Mode: 0o644},
			"Files/kubernetes/pv 1.yaml": {Data: []byte("kind: PersistentVolume\n"), Mode: 0o600},
			"Scripts/install.sh":         {Data: []byte("#!/bin/sh\n"), Mode: 0o700},
		},
		Flavors: map[string]string{"": "m1.medium"}, Images: map[string]string{"": "ubuntu"},
	}
}

func build(t *testing.T, o csar.Options) *csar.Package {
	t.Helper()
	p, err := csar.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// written is the package as a zip file.
func written(t *testing.T, o csar.Options, epoch string) []byte {
	t.Helper()
	at, err := csar.Epoch(epoch)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := build(t, o).Write(&b, at); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpacked is what a zip file has, by path.
func unpacked(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

// each calls the test for every template and version of the API.
func each(t *testing.T, do func(t *testing.T, template string, api hot.API)) {
	for _, template := range hot.Flavours {
		for _, api := range []hot.API{hot.V1, hot.V2} {
			t.Run(template+" "+string(api), func(t *testing.T) { do(t, template, api) })
		}
	}
}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	ids := map[string]string{}
	each(t, func(t *testing.T, template string, api hot.API) {
		o := options(t, template, api)
		if !bytes.Equal(written(t, o, ""), written(t, options(t, template, api), "")) {
			t.Error("two packages of one input differ")
		}
		id := build(t, o).VNFDID
		if other, used := ids[id]; used {
			t.Errorf("it has the VNFD id of %s", other)
		}
		ids[id] = template + string(api)
	})
}

// Tacker refuses a second package with the same VNFD id.
func TestOtherContentHasAnotherVNFDID(t *testing.T) {
	ids := map[string]string{build(t, options(t, "simple", hot.V1)).VNFDID: "nothing"}
	for what, change := range map[string]func(*csar.Options){
		"a file":        func(o *csar.Options) { o.Files.(fstest.MapFS)["Scripts/install.sh"].Data = []byte("#!/bin/bash\n") },
		"a file's mode": func(o *csar.Options) { o.Files.(fstest.MapFS)["Scripts/install.sh"].Mode = 0o600 },
		"a flavor":      func(o *csar.Options) { o.Flavors["masterNode"] = "m1.large" },
		"an image":      func(o *csar.Options) { o.Images[""] = "Files/images/debian.qcow2" },
		"the flavour":   func(o *csar.Options) { o.FlavourID = "other" },
		"script":        func(o *csar.Options) { o.ClusterScript = "Scripts/install.sh" },
		"the types":     func(o *csar.Options) { o.Types = nil },
		"controller":    func(o *csar.Options) { o.Controller = controllerOf(t) },
	} {
		o := options(t, "simple", hot.V1)
		change(&o)
		id := build(t, o).VNFDID
		if other, used := ids[id]; used {
			t.Errorf("with another %s it has the VNFD id of the one with another %s", what, other)
		}
		ids[id] = what
	}
}

func TestTimesOfFiles(t *testing.T) {
	earliest := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	for epoch, want := range map[string]time.Time{"": earliest, "0": earliest, "1700000000": time.Unix(1700000000, 0)} {
		archive := written(t, options(t, "simple", hot.V1), epoch)
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			if !f.Modified.Equal(want) {
				t.Errorf("SOURCE_DATE_EPOCH=%s: %s has %s", epoch, f.Name, f.Modified)
			}
		}
	}
	for _, epoch := range []string{"today", "99999999999"} {
		if _, err := csar.Epoch(epoch); err == nil {
			t.Errorf("%s is taken", epoch)
		}
	}
}

// Every file has its hash, and the user's are as they were.
func TestContents(t *testing.T) {
	each(t, func(t *testing.T, template string, api hot.API) {
		o := options(t, template, api)
		files := unpacked(t, written(t, o, ""))
		meta, faults := csar.ParseMeta([]byte(files[csar.MetaFile]))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		hashes, want := map[string]string{}, map[string]string{}
		for _, block := range meta.Files {
			hashes[block["Name"]] = block["Algorithm"] + " " + block["Hash"]
		}
		for name, text := range files {
			if sum := sha256.Sum256([]byte(text)); name != csar.MetaFile {
				want[name] = "SHA-256 " + hex.EncodeToString(sum[:])
			}
		}
		if diff := cmp.Diff(want, hashes); diff != "" {
			t.Error(diff)
		}
		for name, f := range o.Files.(fstest.MapFS) {
			if files[name] != string(f.Data) {
				t.Errorf("%s is %q", name, files[name])
			}
		}
		if _, there := files[meta.Head["Entry-Definitions"]]; !there {
			t.Errorf("Entry-Definitions is %q", meta.Head["Entry-Definitions"])
		}
		driver := map[hot.API]string{hot.V1: "Scripts/nodehitch_mgmt.py", hot.V2: "Definitions/nodehitch_script.py"}[api]
		for _, name := range []string{driver, "UserData/__init__.py", "UserData/k8s_cluster_user_data.py", "BaseHOT/simple/simple.yaml"} {
			if _, there := files[name]; !there {
				t.Errorf("it has no %s", name)
			}
		}
	})
}

// Tacker runs the modes that the zip file says.
// At a heal of a VDU Tacker's v1 API has Heat replace the volumes that the VDU requires; the v2 API
// looks at the stack instead.
func TestAHealOfTheStorageServerKeepsItsVolume(t *testing.T) {
	each(t, func(t *testing.T, template string, api hot.API) {
		vnfd := unpacked(t, written(t, options(t, template, api), ""))["Definitions/nodehitch_df_simple.yaml"]
		volumes, required := strings.Contains(vnfd, "tosca.nodes.nfv.Vdu.VirtualBlockStorage"), strings.Contains(vnfd, "- virtual_storage: ")
		if required != (volumes && api == hot.V2) {
			t.Errorf("the VNFD has volumes: %v, a VDU requires one: %v", volumes, required)
		}
	})
}

func TestModesOfFiles(t *testing.T) {
	archive := written(t, options(t, "simple", hot.V1), "")
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		want := os.FileMode(0o644)
		if f.Name == "Scripts/install.sh" {
			want = 0o755
		}
		if f.Mode() != want {
			t.Errorf("%s has %s, want %s", f.Name, f.Mode(), want)
		}
	}
}

// controllerOf is what names a controller, with a token that must not be used.
func controllerOf(t *testing.T) *cloudinit.Params {
	t.Helper()
	pem, err := os.ReadFile("../../../cloudinit/testdata/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	root, err := client.ParseRoot(pem, "")
	if err != nil {
		t.Fatal(err)
	}
	return &cloudinit.Params{ControllerURLs: []string{"https://a.example:8443", "https://[2001:db8::1]:8443"}, RootPEM: pem,
		Pin: client.Pin(root), JoinToken: "id.secret-that-is-long-enough"}
}

func TestAPackageHasNoJoinToken(t *testing.T) {
	each(t, func(t *testing.T, template string, api hot.API) {
		o := options(t, template, api)
		o.Controller = controllerOf(t)
		files := unpacked(t, written(t, o, ""))
		for name, text := range files {
			if strings.Contains(text, "secret-that-is") {
				t.Errorf("%s has the join token", name)
			}
		}
		if top := files["BaseHOT/simple/simple.yaml"]; strings.Count(top, "\n    default: \"") != 3 || !strings.Contains(top, o.Controller.Pin) {
			t.Errorf("the base HOT has no defaults: %s", top)
		}
	})
}

// The script is in the base HOT, and in the package as it was.
func TestAClustersScript(t *testing.T) {
	each(t, func(t *testing.T, template string, api hot.API) {
		o := options(t, template, api)
		o.ClusterScript = "./Scripts/install.sh"
		p, err := csar.Build(o)
		if template == "registry" {
			if err == nil || !strings.Contains(err.Error(), "./Scripts/install.sh: registry has no masters and workers") {
				t.Errorf("got %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		packed, err := cloudinit.PackClusterScript([]byte("#!/bin/sh\n"))
		if err != nil {
			t.Fatal(err)
		}
		files := unpacked(t, written(t, o, ""))
		if n := strings.Count(files["BaseHOT/simple/simple.yaml"], string(packed)); n != 1 || files["Scripts/install.sh"] != "#!/bin/sh\n" {
			t.Errorf("the base HOT has the script %d times, the package has %q", n, files["Scripts/install.sh"])
		}
		if p.VNFDID == build(t, options(t, template, api)).VNFDID {
			t.Error("it has the VNFD id of the package without")
		}
	})
}

// The user's image is in the VNFD with its hash, so that Tacker uploads it.
func TestAnImageOfTheUser(t *testing.T) {
	o := options(t, "simple-storage", hot.V1)
	o.Images["storage_server"] = "Files/images/debian.qcow2"
	text := unpacked(t, written(t, o, ""))["Definitions/nodehitch_df_simple.yaml"]
	sum := sha512.Sum512([]byte("QFI image"))
	for _, want := range []string{"hash: " + hex.EncodeToString(sum[:]), "file: ../Files/images/debian.qcow2", "size: 9 B", "disk_format: qcow2", "name: debian-storage_server\n"} {
		if strings.Count(text, want) < 1 {
			t.Errorf("the VNFD has no %q", want)
		}
	}
	if n := strings.Count(text, "type: tosca.artifacts.nfv.SwImage"); n != 1 {
		t.Errorf("%d VDUs have an image of the package, want 1", n)
	}
}

// Tacker's v1 API keeps the names in the parameter nfv.
func TestNamesThatTheFirstAPIDoesNotKeep(t *testing.T) {
	each(t, func(t *testing.T, template string, api hot.API) {
		o := options(t, template, api)
		o.Flavors[""], o.Images[""] = `the "large" one`, `Debian\12`
		_, err := csar.Build(o)
		if api == hot.V2 {
			if err != nil {
				t.Error(err)
			}
			return
		}
		for _, want := range []string{`its name holds quotes, which Tacker's v1 API`, `: its name holds backslashes, which`} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func TestEveryFaultAtOnce(t *testing.T) {
	o := options(t, "simple", hot.V1)
	o.FlavourID, o.ClusterScript = "../simple", "Scripts/junk.sh"
	o.Types = fstest.MapFS{"etsi_nfv_sol001_common_types.yaml": {}}
	o.Flavors = map[string]string{"": "m1.medium", "storage_server": "m1.small"}
	o.Images["masterNode"], o.Images["workerNode"] = "", "Files/images/other.qcow2"
	o.Controller = &cloudinit.Params{ControllerURLs: []string{"ftp://a"}}
	o.Files = fstest.MapFS{
		"TOSCA-Metadata/TOSCA.meta": {}, "Scripts/nodehitch_mgmt.py": {}, "Definitions/nodehitch_types.yaml": {},
		"Scripts/junk.sh": {Data: []byte("\x7fELF")}, "Files/a\nb": {}, "true": {}, "Files/link": {Mode: os.ModeSymlink, Data: []byte("/etc/passwd")},
	}
	_, err := csar.Build(o)
	if err == nil {
		t.Fatal("it is built")
	}
	for _, want := range []string{
		`flavour id "../simple"`, "etsi_nfv_sol001_vnfd_types.yaml", "flavor of storage_server: simple has no such VDU; expected one of masterNode, workerNode",
		`Scripts/junk.sh: the cluster's script begins with "\x7fELF"`, `image ""`, "image Files/images/other.qcow2 is not among your files", `controller URL "ftp://a"`, "pin: expected", "TOSCA-Metadata/TOSCA.meta is made by this command", "Scripts/nodehitch_mgmt.py is made by",
		"Definitions/nodehitch_types.yaml is made by", `"Files/a\nb" has a character`, `"true" is not plain text`, "Files/link is no regular file",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no fault says %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestAFileThatChangesMeanwhile(t *testing.T) {
	o := options(t, "simple", hot.V1)
	p := build(t, o)
	o.Files.(fstest.MapFS)["Scripts/install.sh"].Data = []byte("#!/bin/bash\n")
	if err := p.Write(io.Discard, time.Now()); err == nil || !strings.Contains(err.Error(), "Scripts/install.sh into the package: it changed") {
		t.Errorf("got %v", err)
	}
}

// saved writes the packages into a directory.
func saved(t *testing.T, archives map[string][]byte) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(archives)) {
		path := filepath.Join(dir, name+".csar")
		if err := os.WriteFile(path, archives[name], 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func FuzzParseMeta(f *testing.F) {
	for _, seed := range []string{"", "a: b", "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: a\n b\n\nName: x\nHash: y\n", "\r\n \n:"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, _ := csar.ParseMeta(text)
		if n := bytes.Count(text, []byte("\n")) + 1; m.Head == nil || len(m.Files) > n {
			t.Errorf("%d files in %d lines, %v", len(m.Files), n, m.Head)
		}
	})
}
