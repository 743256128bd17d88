package request_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/controller/hitchctl/csar"
	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
)

// bodies are the specifications' requests that fit a template.
var bodies = map[string]string{
	"simple": "registry-connections.json", "complex": "registry-connections.json",
	"simple-storage": "persistent-volumes.json", "complex-storage": "persistent-volumes.json", "registry": "private-registry.json",
}

// packAll is a directory with the files that all of them name, and one more.
func packAll(t *testing.T) string {
	t.Helper()
	root, err := os.ReadFile("../../../cloudinit/testdata/root.pem")
	if err != nil {
		t.Fatal(err)
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	for name, content := range map[string]string{
		"manifest.json": `[{"Config":"c.json","RepoTags":["registry:latest"],"Layers":["l/layer.tar"]}]`, "c.json": "{}", "l/layer.tar": "",
	} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return pack(t, map[string]string{
		"Files/more.txt": "more\n", "Files/images/debian.qcow2": "QFI image", "Files/registries/ca.crt": string(root), "Files/images/private_registry.tar": image.String(),
	})
}

// built is a package with the files that the specification's request names.
func built(t *testing.T, template string, api hot.API) []byte {
	t.Helper()
	types := fstest.MapFS{}
	for _, name := range csar.TypeFiles {
		types[name] = &fstest.MapFile{Data: []byte("tosca_definitions_version: tosca_simple_yaml_1_2\n")}
	}
	p, err := csar.Build(csar.Options{
		Template: template, FlavourID: "simple", API: api, Types: types, Files: os.DirFS(packAll(t)),
		Flavors: map[string]string{"": "m1.medium"}, Images: map[string]string{"": "Files/images/debian.qcow2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(&b, now); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// checkPackage checks the request with the package at path, as validate does.
func checkPackage(t *testing.T, path, body string) *request.Request {
	t.Helper()
	p, err := request.OpenPackage(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	r := request.Read("x", []byte(body))
	r.Warnings = nil // of the body
	if _, err := r.CheckFiles(p, now); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckTemplates(p); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckDefinitions(p); err != nil {
		t.Fatal(err)
	}
	return r
}

func save(t *testing.T, archive []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vnf.csar")
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBuiltPackagesHaveNoFault(t *testing.T) {
	for _, template := range hot.Flavours {
		for _, api := range []hot.API{hot.V1, hot.V2} {
			t.Run(template+" "+string(api), func(t *testing.T) {
				r := checkPackage(t, save(t, built(t, template, api)), sample(t, bodies[template]))
				expectFindings(t, "faults", r.Faults, nil)
				var warnings []string
				if template == "registry" { // the specification's request has no UserData class
					warnings = []string{"x /additionalParams: names no UserData class (lcm-operation-user-data, "}
				}
				expectFindings(t, "warnings", r.Warnings, warnings)
			})
		}
	}
}

const (
	dfFile  = "Definitions/nodehitch_df_simple.yaml"
	topFile = "Definitions/nodehitch_top.vnfd.yaml"
	hotFile = "BaseHOT/simple/simple.yaml"
	script  = "Scripts/nodehitch_mgmt.py"
	nodes   = dfFile + " /topology_template/node_templates/"
)

// unpack puts what an archive has into a directory.
func unpack(t *testing.T, archive []byte) string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, r); err != nil {
		t.Fatal(err)
	}
	return dir
}

// swap replaces the text of a file; "" as the old text is the whole file, "" as both removes it.
func swap(t *testing.T, dir, file, old, text string) {
	t.Helper()
	path := filepath.Join(dir, file)
	if old == "" && text == "" {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	content, err := os.ReadFile(path)
	if err != nil && old != "" {
		t.Fatal(err)
	}
	changed := text
	if old != "" {
		if !strings.Contains(string(content), old) {
			t.Fatalf("%s has no %q", file, old)
		}
		changed = strings.Replace(string(content), old, text, 1)
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// withoutHashes leaves in TOSCA.meta only what the VNFD is found by.
func withoutHashes(t *testing.T, dir string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, csar.MetaFile))
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(content), "\n\n")
	swap(t, dir, csar.MetaFile, "", head+"\n")
}

// What Tacker finds only when machines are made, or never says.
func TestPackagesThatTackerWouldNotRun(t *testing.T) {
	type change struct{ file, old, text string }
	meta := func(old, text string) []change { return []change{{csar.MetaFile, old, text}} }
	const params = "x /additionalParams/"
	for name, c := range map[string]struct {
		api     hot.API
		body    string // replaces the first by the second
		changes []change
		hashes  bool // also those of the changed files are checked
		faults  []string
	}{
		"no TOSCA.meta":         {changes: meta("", ""), faults: []string{csar.MetaFile + " : is not in the package"}},
		"other content":         {hashes: true, changes: []change{{script, "Tacker", "tacker"}}, faults: []string{csar.MetaFile + " : Scripts/nodehitch_mgmt.py has another content than its Hash says"}},
		"a file is missing":     {hashes: true, changes: []change{{"Files/more.txt", "", ""}}, faults: []string{csar.MetaFile + " : Files/more.txt is in it, and not in the package"}},
		"another algorithm":     {changes: meta("Algorithm: SHA-256", "Algorithm: MD5"), faults: []string{csar.MetaFile + ` : has the Algorithm "MD5"; expected one of SHA-224, SHA-256, SHA-384, SHA-512`}},
		"a hash alone":          {changes: meta("Algorithm: SHA-256\n", ""), faults: []string{csar.MetaFile + " : has one of Algorithm and Hash alone"}},
		"no line":               {changes: meta("CSAR-Version: 1.1", "CSAR-Version"), faults: []string{csar.MetaFile + " : line 2: expected `name: value`", csar.MetaFile + " : no CSAR-Version"}},
		"two files in a block":  {changes: meta("\n\nName: "+hotFile, "\nName: "+hotFile), faults: []string{csar.MetaFile + " : Name is given twice", csar.MetaFile + " : Content-Type is given twice", csar.MetaFile + " : Algorithm is given twice", csar.MetaFile + " : Hash is given twice"}},
		"no entry":              {changes: meta("Definitions/nodehitch_top", "Definitions/top"), faults: []string{csar.MetaFile + " : Definitions/top.vnfd.yaml, the VNFD or a part of it, is not in the package"}},
		"no types":              {changes: []change{{"Definitions/" + csar.TypeFiles[1], "", ""}}, faults: []string{topFile + " /imports/1: etsi_nfv_sol001_vnfd_types.yaml is not in the package; it is one of ETSI's"}},
		"no part":               {changes: []change{{topFile, "- nodehitch_df_simple.yaml", "- other.yaml"}}, faults: []string{topFile + " /imports/3: Definitions/other.yaml, the VNFD or a part of it, is not in the package"}},
		"no flavour at all":     {changes: []change{{topFile, "- nodehitch_df_simple.yaml", ""}}, faults: []string{topFile + " : neither it nor what it imports has a deployment flavour"}},
		"no flavour":            {body: `"flavourId": "simple"|"flavourId": "complex"`, faults: []string{`x /flavourId: "complex" is no deployment flavour of the package's VNFD; expected simple`}},
		"no base HOT":           {changes: []change{{hotFile, "", ""}}, faults: []string{params + "k8s_cluster_installation_param/storage_server/cinder_volume_setup_params/0/volume_resource_id: no volume", params + "k8s_cluster_installation_param/pv_registration_params/0/nfs_server_cp: no connection", params + "k8s_cluster_installation_param/pv_registration_params/1/nfs_server_cp: no connection", params + "k8s_cluster_installation_param/pv_registration_params/2/nfs_server_cp: no connection", "BaseHOT/simple : expected one Heat template beside nested/, found 0", nodes + "storage_server: no server", nodes + "storage_server_CP: no port", nodes + "storage_server_volume: no volume", dfFile + " /topology_template/policies/8/scaling_aspects/properties/aspects/worker_instance: no scaling policy worker_instance_scale_in", dfFile + " /topology_template/policies/8/scaling_aspects/properties/aspects/worker_instance: no scaling policy worker_instance_scale_out"}},
		"two base HOTs":         {changes: []change{{"BaseHOT/simple/more.yaml", "", "heat_template_version: 2018-08-31\n"}}, faults: []string{"BaseHOT/simple : expected one Heat template beside nested/, found 2: BaseHOT/simple/more.yaml, BaseHOT/simple/simple.yaml"}},
		"nothing nested":        {changes: []change{{hotFile, "type: nodehitch-worker.yaml", "type: other-worker.yaml"}}, faults: []string{hotFile + " : names the template other-worker.yaml, which is not in BaseHOT/simple/nested"}},
		"a server's name":       {changes: []change{{dfFile, "    storage_server:\n", "    storage:\n"}}, faults: []string{nodes + "storage: the Heat templates make no server (OS::Nova::Server) of this name; expected masterNode or storage_server or workerNode", "BaseHOT/simple : nfv/VDU/storage_server: the deployment flavour simple has no such VDU; expected masterNode or storage or workerNode"}},
		"a port's name":         {changes: []change{{dfFile, "    workerNode_CP2:\n", "    workerNode_CP1:\n"}}, faults: []string{nodes + "workerNode_CP1: no port", "BaseHOT/simple : nfv/CP/workerNode_CP2: the deployment flavour simple has no such connection point", `x /extVirtualLinks/1/extCps/0/cpdId: "workerNode_CP2" is no connection point of the deployment flavour`}},
		"a volume's name":       {changes: []change{{dfFile, "    storage_server_volume:\n", "    volume:\n"}}, faults: []string{nodes + "volume: the Heat templates make no volume (OS::Cinder::Volume)"}},
		"an aspect's name":      {changes: []change{{dfFile, "worker_instance:\n            name", "workers:\n            name"}}, faults: []string{dfFile + " /topology_template/policies/8/scaling_aspects/properties/aspects/workers: no scaling policy workers_scale_in", dfFile + " /topology_template/policies/8/scaling_aspects/properties/aspects/workers: no scaling policy workers_scale_out"}},
		"no size (v2)":          {api: hot.V2, changes: []change{{hotFile, "{get_param: [nfv, VDU, workerNode, desired_capacity]}", "2"}}, faults: []string{dfFile + " /topology_template/policies/6/workerNode_scaling_aspect_deltas/targets/0: nfv/VDU/workerNode/desired_capacity, by which Tacker's v2 API scales"}},
		"of both APIs":          {changes: []change{{hotFile, "storage_server, flavor]", "storage_server, computeFlavourId]"}}, faults: []string{"BaseHOT/simple : takes flavor or image from nfv, as Tacker's v1 API has them, and computeFlavourId", dfFile + " /topology_template/policies/6/workerNode_scaling_aspect_deltas/targets/0: desired_capacity", nodes + "VNF/artifacts/nodehitch/file: Definitions/Scripts/nodehitch_mgmt.py is not in the package"}},
		"no driver":             {changes: []change{{dfFile, "file: " + script, "file: ../" + script}}, faults: []string{nodes + "VNF/artifacts/nodehitch/file: ../Scripts/nodehitch_mgmt.py is not in the package"}},
		"no driver (v2)":        {api: hot.V2, changes: []change{{dfFile, "file: nodehitch_script.py", "file: Scripts/a.py"}}, faults: []string{nodes + "VNF/artifacts/nodehitch/file: Definitions/Scripts/a.py is not in the package"}},
		"no artifact":           {changes: []change{{dfFile, "implementation: nodehitch", "implementation: other"}}, faults: []string{nodes + `VNF/interfaces/Vnflcm/instantiate_start: the node has no artifact "other"; expected nodehitch`}},
		"no UserData":           {body: "k8s_cluster_user_data.py|user_data.py", faults: []string{params + "lcm-operation-user-data: UserData/user_data.py is not in the package; put it there"}},
		"no such class":         {body: "KubernetesClusterUserData|SampleUserData", faults: []string{params + `lcm-operation-user-data-class: UserData/k8s_cluster_user_data.py has no class "SampleUserData"`}},
		"half of the UserData":  {body: `"lcm-operation-user-data-class"|"class"`, faults: []string{"x /additionalParams: has one of lcm-operation-user-data and lcm-operation-user-data-class"}},
		"a point of no network": {body: `"cpdId": "storage_server_CP"|"cpdId": "other_CP"`, faults: []string{`x /extVirtualLinks/2/extCps/0/cpdId: "other_CP" is no connection point of the deployment flavour; expected masterNode_CP1 or`, "x /extVirtualLinks: names no network for the connection point storage_server_CP"}},
		"two images of a name":  {changes: []change{{dfFile, "name: debian-workerNode", "name: debian-masterNode"}}, faults: []string{nodes + `masterNode/properties/sw_image_data/name: the image of workerNode is called "debian-masterNode" too`, nodes + "workerNode/properties/sw_image_data/name: the image of masterNode is"}},
		"the same (v2)":         {api: hot.V2, changes: []change{{dfFile, "name: debian-workerNode", "name: debian-masterNode"}}},
		"text as user_data":     {body: withParams(`"worker_user_data": "#!/bin/sh\necho 'x'", "master_user_data": "0b1a5c2e-0000-4000-8000-000000000001", "other": "a\nb"`), faults: []string{params + "worker_user_data: holds line breaks and quotes, which Tacker's v1 API alters in parameters of the base HOT at each heal; put the text into a software config of the stack's project (`openstack software config create --config-file FILE --group ungrouped NAME`) and give its id"}},
		"user_data (v2)":        {api: hot.V2, body: withParams(`"worker_user_data": "#!/bin/sh\necho 'x'"`)},
		"in a list, in a map":   {body: withParams(`"nodehitch_controller_urls": ["https://a", "\u00a0"], "nfv": {"a\\": {"b": "\""}}`), faults: []string{params + "nfv/a\\: holds backslashes", params + "nfv/a\\/b: holds quotes", params + "nodehitch_controller_urls/1: holds characters that are not printable, which Tacker's v1 API alters in parameters of the base HOT at each heal; give a value without them, or make it the parameter's default in the base HOT"}},
		"an old package":        {changes: []change{{hotFile, "  nodehitch_root_certificate_lines:", "  nodehitch_root_certificate:"}}, body: withParams(`"nodehitch_root_certificate": "a\nb"`)},
		"a group's name":        {body: `"aspect_id": "worker_instance"|"aspect_id": "workers"`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.api == "" {
				c.api = hot.V1
			}
			dir := unpack(t, built(t, "simple-storage", c.api))
			for _, change := range c.changes {
				swap(t, dir, change.file, change.old, change.text)
			}
			if len(c.changes) > 0 && c.changes[0].file != csar.MetaFile && !c.hashes {
				withoutHashes(t, dir)
			}
			body := sample(t, "persistent-volumes.json")
			if old, text, ok := strings.Cut(c.body, "|"); ok {
				if !strings.Contains(body, old) {
					t.Fatalf("the body has no %q", old)
				}
				body = strings.Replace(body, old, text, 1)
			}
			r := checkPackage(t, dir, body)
			expectFindings(t, "faults", r.Faults, c.faults)
		})
	}
}

// withParams adds members to the body's additionalParams.
func withParams(members string) string {
	const first = `"lcm-operation-user-data":`
	return first + "|" + members + ", " + first
}

// Tacker's v1 API leaves out such a template when it changes the external connectivity.
func TestATemplateNestedOutsideOfAGroupIsAWarning(t *testing.T) {
	for api, want := range map[hot.API][]string{
		hot.V1: {hotFile + " /resources/master_agent: is a nested template, and no member of a group: Tacker's v1 API can never change"}, hot.V2: nil,
	} {
		dir := unpack(t, built(t, "simple-storage", api))
		if api == hot.V1 {
			swap(t, dir, hotFile, "  master_agent:\n    type: OS::Heat::MultipartMime", "  master_agent:\n    type: nodehitch-worker.yaml")
		}
		withoutHashes(t, dir)
		r := checkPackage(t, dir, sample(t, "persistent-volumes.json"))
		expectFindings(t, "faults", r.Faults, nil)
		noHash := func(f request.Finding) bool { return f.Document == csar.MetaFile }
		expectFindings(t, "warnings", slices.DeleteFunc(r.Warnings, noHash), want)
	}
}

func TestAFileWithoutAHashIsAWarning(t *testing.T) {
	dir := unpack(t, built(t, "registry", hot.V1))
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		swap(t, dir, "Files/"+name, "", "content\n")
	}
	r := checkPackage(t, dir, sample(t, "private-registry.json"))
	expectFindings(t, "faults", r.Faults, nil)
	expectFindings(t, "warnings", r.Warnings[:1], []string{csar.MetaFile + " : has no hash of Files/a, Files/b, Files/c and 2 more"})
}

// A group that is not there: servers may have their role by their connection point.
func TestAnAspectWithoutAGroupIsAWarning(t *testing.T) {
	body := strings.Replace(sample(t, "registry-connections.json"), "worker_instance", "workers", 1)
	r := checkPackage(t, save(t, built(t, "simple", hot.V1)), body)
	expectFindings(t, "faults", r.Faults, nil)
	expectFindings(t, "warnings", r.Warnings, []string{`x /additionalParams/k8s_cluster_installation_param/worker_node/aspect_id: "workers" is no group (OS::Heat::AutoScalingGroup) of`})
}

// The specification's VNFD has it.
func TestAVolumeThatAHealReplacesIsAWarning(t *testing.T) {
	dir := unpack(t, built(t, "simple-storage", hot.V1))
	withoutHashes(t, dir)
	swap(t, dir, "Definitions/nodehitch_df_simple.yaml", "    storage_server_CP:\n", "      requirements: [virtual_storage: storage_server_volume]\n    storage_server_CP:\n")
	r := checkPackage(t, dir, sample(t, "persistent-volumes.json"))
	expectFindings(t, "faults", r.Faults, nil)
	expectFindings(t, "warnings", r.Warnings[1:], []string{"Definitions/nodehitch_df_simple.yaml /topology_template/node_templates/storage_server/requirements/0: at each heal of this server"})
}

// entry is one of a zip file.
type entry struct {
	name  string
	mode  fs.FileMode
	flags uint16
	how   uint16
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Flags: e.flags, Method: e.how}
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		if _, err := w.CreateRaw(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An archive must not reach outside itself, nor take more than it may.
func TestArchivesThatAreRefused(t *testing.T) {
	many := make([]entry, 10_001)
	for i := range many {
		many[i] = entry{name: fmt.Sprint(i)}
	}
	for name, c := range map[string]struct {
		entries []entry
		want    []string
	}{
		"paths":                 {[]entry{{name: "../up"}, {name: "/etc/passwd"}, {name: `a\b`}, {name: "a/../b"}, {name: "./c"}, {name: "."}}, []string{`"../up" is no path within`, `"/etc/passwd" is no path`, `"a\\b" is no path`, `"a/../b" is no path`, `"./c" is no path`, `"." is no path`}},
		"links":                 {[]entry{{name: "a", mode: fs.ModeSymlink | 0o777}, {name: "b", mode: fs.ModeDevice | 0o600}}, []string{`"a" is a symbolic link`, `"b" is neither a file nor a directory`}},
		"twice":                 {[]entry{{name: "a"}, {name: "a"}}, []string{`"a" is in it twice`}},
		"a file is a directory": {[]entry{{name: "a"}, {name: "a/b"}}, []string{`"a/b" lies in "a", which is a file`}},
		"a directory is a file": {[]entry{{name: "a/b"}, {name: "a"}}, []string{`"a" is in it twice`}},
		"encrypted":             {[]entry{{name: "a", flags: 1}}, []string{`"a" is encrypted`}},
		"a method":              {[]entry{{name: "a", how: 12}}, []string{`"a" is compressed by method 12; expected deflate`}},
		"many":                  {many, []string{"it has 10001 entries; expected at most 10000"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := request.OpenPackage(save(t, archive(t, c.entries...)))
			if err == nil {
				t.Fatal("it is opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}

// Sizes are what the archive says: the total is bounded, and a file is not read beyond its own.
func TestSizesOfAnArchive(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"a", "b"} {
		if _, err := w.CreateRaw(&zip.FileHeader{Name: name, UncompressedSize64: 40 << 30}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := request.OpenPackage(save(t, b.Bytes())); err == nil || !strings.Contains(err.Error(), "more than 64 GiB together") {
		t.Errorf("got %v", err)
	}
	b.Reset()
	w = zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "a", Method: zip.Deflate, Modified: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	lying := bytes.ReplaceAll(b.Bytes(), []byte{0, 0, 16, 0}, []byte{10, 0, 0, 0}) // 1 MiB to 10 bytes
	p, err := request.OpenPackage(save(t, lying))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	content, size, err := p.Content("a")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if n, err := io.Copy(io.Discard, content); err == nil || size != 10 || n > 64<<10 {
		t.Errorf("read %d of %d bytes, %v", n, size, err)
	}
}
