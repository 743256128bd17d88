package params_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nodehitch/nodehitch/shared/params"
)

// today is the clock of the tests in this package.
var today = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const somewhere = "/additionalParams/x/0"

func fileUse(use params.Use) params.FileUse {
	return params.FileUse{Use: use, Path: "Files/f", Pointer: somewhere}
}

// check expects no reading error, findings only at the place of the use, and
// returns the messages of faults and warnings.
func check(t *testing.T, use params.Use, content string, p *params.Params) (faults, warnings string) {
	t.Helper()
	report, err := params.CheckFile(fileUse(use), iotest.HalfReader(strings.NewReader(content)), p, today)
	if err != nil {
		t.Fatalf("reading a string failed: %v", err)
	}
	for _, f := range append(report.Faults, report.Warnings...) {
		if f.Pointer != somewhere || !strings.HasPrefix(f.Message, "Files/f ") {
			t.Errorf("a finding does not name the file at its place: %v", f)
		}
	}
	return report.Faults.Error(), report.Warnings.Error()
}

// expect wants a text that contains word, or none if word is empty.
func expect(t *testing.T, what, got, word string) {
	t.Helper()
	if (got == "") != (word == "") || !strings.Contains(got, word) {
		t.Errorf("%s: got %q, want %q", what, got, word)
	}
}

func samples(t *testing.T) *params.Params {
	t.Helper()
	request, report := params.ParseRequest(read(t, "testdata/persistent-volumes.json"))
	if request == nil {
		t.Fatal(report.Faults)
	}
	return request.Params
}

const pv1 = `apiVersion: v1
kind: PersistentVolume
metadata:
  name: nfs-pv1
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  nfs:
    server: 10.10.0.5
    path: /volume/nfs/pv1
`

func TestManifests(t *testing.T) {
	edit := func(old, text string) string {
		if !strings.Contains(pv1, old) {
			t.Fatalf("the manifest has no %q", old)
		}
		return strings.Replace(pv1, old, text, 1)
	}
	pv2 := strings.ReplaceAll(pv1, "pv1", "pv2")
	for name, test := range map[string]struct{ content, fault, warning string }{
		"one object":                  {content: pv1},
		"two objects":                 {content: "---\n" + pv1 + "---\n# nothing\n---\n" + pv2 + "...\n"},
		"as JSON":                     {content: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"},"spec":{"capacity":{},"accessModes":[],"nfs":{"path":"/volume/nfs/pv3/"}}}`},
		"without a server":            {content: edit("    server: 10.10.0.5\n", "")},
		"with an anchor":              {content: "# x\n" + edit("name: nfs-pv1", "name: &n nfs-pv1\n  labels: {n: *n}")},
		"empty":                       {content: "", fault: "no object"},
		"only comments":               {content: "---\n# a\n", fault: "no object"},
		"not YAML":                    {content: "a: [b", fault: "is not YAML"},
		"tabs":                        {content: "a:\n\tb: 1\n", fault: "is not YAML"},
		"not UTF-8":                   {content: "a: \xff", fault: "is not YAML"},
		"a text":                      {content: "hello", fault: "found a string, expected an object"},
		"a list":                      {content: "- " + strings.ReplaceAll(pv1, "\n", "\n  "), fault: "found a list, expected an object"},
		"another kind":                {content: edit("kind: PersistentVolume", "kind: ConfigMap"), fault: `at /kind: is "ConfigMap"; expected "PersistentVolume"`},
		"a List":                      {content: listOf(pv1, pv2)},
		"a List and another object":   {content: listOf(pv1) + "---\n" + pv2},
		"a List as JSON":              {content: `{"kind":"List","apiVersion":"v1","metadata":{},"items":[{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"},"spec":{"capacity":{},"accessModes":[],"nfs":{"path":"/volume/nfs/pv3"}}}]}`},
		"an empty List":               {content: "apiVersion: v1\nkind: List\nitems: []\n", fault: "no object"},
		"a List without items":        {content: "apiVersion: v1\nkind: List\n", fault: "or an item of a List"},
		"a List of another version":   {content: strings.Replace(listOf(pv1), "v1", "v2", 1), fault: "at /apiVersion"},
		"a List in a List":            {content: listOf(listOf(pv1)), fault: `at /kind: is "List"`},
		"a List of texts":             {content: "apiVersion: v1\nkind: List\nitems: [a]\n", fault: "found a string, expected an object"},
		"a List of another kind":      {content: listOf(pv1, strings.Replace(pv2, "kind: P", "kind: X", 1)), fault: "(object 2)"},
		"the same name in a List":     {content: listOf(pv1, pv1), fault: `"nfs-pv1" is the name of object 1 already (object 2)`},
		"another API version":         {content: edit("apiVersion: v1", "apiVersion: v2"), fault: "at /apiVersion"},
		"no name":                     {content: edit("  name: nfs-pv1\n", "  labels: {}\n"), fault: `at /metadata: has no attribute "name"`},
		"a name with capitals":        {content: edit("name: nfs-pv1", "name: NFS"), fault: "at /metadata/name"},
		"a number for a name":         {content: edit("name: nfs-pv1", "name: 1"), fault: "at /metadata/name: found a number"},
		"no nfs":                      {content: edit("  nfs:\n", "  hostPath:\n"), fault: `at /spec: has no attribute "nfs"`},
		"no path":                     {content: edit("    path: /volume/nfs/pv1\n", ""), fault: `at /spec/nfs: has no attribute "path"`},
		"a relative path":             {content: edit("path: /volume", "path: volume"), fault: "at /spec/nfs/path"},
		"a path with ..":              {content: edit("path: /volume", "path: /volume/.."), fault: "at /spec/nfs/path"},
		"spec of a wrong type":        {content: "apiVersion: v1\nkind: PersistentVolume\nmetadata: [a]\nspec: 7\n", fault: "at /spec: found a number"},
		"a key twice":                 {content: edit("    path:", "    path: /x\n    path:"), fault: "at /spec/nfs/path: is given more than once"},
		"a key twice, second object":  {content: pv1 + "---\n" + strings.Replace(pv2, "    path:", "    path: /x\n    path:", 1), fault: "(YAML document 2)"},
		"the second object is wrong":  {content: pv1 + "---\n" + strings.Replace(pv2, "kind: P", "kind: X", 1), fault: "(object 2)"},
		"the same name twice":         {content: pv1 + "---\n" + pv1, fault: `"nfs-pv1" is the name of object 1 already (object 2)`},
		"too large":                   {content: pv1 + strings.Repeat("#", 1<<20), fault: "larger than 1048576 bytes"},
		"nested deeply":               {content: strings.Repeat("[", 5000) + strings.Repeat("]", 5000), fault: "deeper than 100"},
		"a bomb of aliases":           {content: "a: &a [x,x,x,x,x,x,x,x,x]\n" + aliases(9), fault: "is not YAML"},
		"a path that is not exported": {content: edit("path: /volume/nfs/pv1", "path: /volume/nfs"), warning: `"/volume/nfs", which is no export_dir of storage_server: "/volume/nfs/pv1"`},
		"no capacity":                 {content: edit("  capacity: {storage: 1Gi}\n", ""), warning: "no spec.capacity"},
		"a namespace":                 {content: edit("  name: nfs-pv1", "  name: nfs-pv1\n  namespace: a"), warning: "has /metadata/namespace, which is not applied"},
		"a status":                    {content: pv1 + "status: {phase: Bound}\n", warning: "has /status, which is not applied: the cluster decides it"},
		"a claim":                     {content: pv1 + "  claimRef: {namespace: a, name: b}\n"},
		"a claim's uid":               {content: pv1 + "  claimRef: {namespace: a, name: b, uid: c}\n", warning: "has /spec/claimRef/uid, which is not applied"},
		"the binder's annotation":     {content: edit("  name: nfs-pv1", "  name: nfs-pv1\n  annotations: {pv.kubernetes.io/bound-by-controller: yes, a: b}"), warning: "has /metadata/annotations/pv.kubernetes.io~1bound-by-controller, which is not applied"},
		"another's label":             {content: edit("  name: nfs-pv1", "  name: nfs-pv1\n  labels: {app.kubernetes.io/managed-by: helm}"), warning: "nodehitch sets it to nodehitch"},
		"a field that is misspelt":    {content: pv1 + "  mountOption: [hard]\n", warning: `has /spec/mountOption, which is not known to nodehitch; the API server refuses a PersistentVolume with a field that it does not know; did you mean "mountOptions"?`},
		"an unknown field at the top": {content: pv1 + "sepc: {}\n", warning: "has /sepc, which is not known"},
		"an unknown field deep":       {content: pv1 + "    pfad: /x\n", warning: "has /spec/nfs/pfad, which is not known"},
		"all that a PV may have":      {content: pv1 + "  storageClassName: a\n  volumeMode: Filesystem\n  mountOptions: [hard]\n  persistentVolumeReclaimPolicy: Retain\n  volumeAttributesClassName: b\n  nodeAffinity: {required: {}}\n"},
		"Delete":                      {content: pv1 + "  persistentVolumeReclaimPolicy: Delete\n", warning: "the volume becomes Failed and its data stays"},
		"Recycle":                     {content: pv1 + "  persistentVolumeReclaimPolicy: Recycle\n", warning: "deletes every file in the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, warnings := check(t, params.UseManifest, test.content, samples(t))
			expect(t, "faults", faults, test.fault)
			expect(t, "warnings", warnings, test.warning)
		})
	}
}

// listOf is a List of these objects.
func listOf(objects ...string) string {
	text := "apiVersion: v1\nkind: List\nitems:\n"
	for _, object := range objects {
		text += "- " + strings.ReplaceAll(strings.TrimSuffix(object, "\n"), "\n", "\n  ") + "\n"
	}
	return text
}

// aliases is a document that doubles its size by nine with each line.
func aliases(levels int) string {
	var b strings.Builder
	for i := range levels {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		b.WriteString(to + ": &" + to + " [" + strings.Repeat("*"+from+",", 8) + "*" + from + "]\n")
	}
	return b.String()
}

func TestAManifestIsReadWhole(t *testing.T) {
	volumes, err := params.ReadManifest([]byte(pv1 + "---\n" + strings.ReplaceAll(pv1, "nfs-pv1", "other")))
	if err != nil || len(volumes) != 2 {
		t.Fatal(volumes, err)
	}
	if v := volumes[1]; v.Name != "other" || v.NFSPath != "/volume/nfs/pv1" || !strings.Contains(string(v.Object), `"server":"10.10.0.5"`) {
		t.Errorf("got %+v", v)
	}
}

func TestVolumesOnOneDirectoryAreEachWarnedAbout(t *testing.T) {
	second := strings.ReplaceAll(strings.ReplaceAll(pv1, "name: nfs-pv1", "name: second"), "nfs/pv1", "nfs/pv1/")
	_, warnings := check(t, params.UseManifest, pv1+"---\n"+second, samples(t))
	for _, want := range []string{`"nfs-pv1" on the directory /volume/nfs/pv1, as "second" is`, `"second" on the directory /volume/nfs/pv1, as "nfs-pv1" is`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("the warnings lack %s:\n%s", want, warnings)
		}
	}
	of := func(path, content string) params.Manifest {
		return params.ManifestOf(params.FileUse{Use: params.UseManifest, Path: path, Pointer: "/" + path}, []byte(content))
	}
	report := params.CheckManifests([]params.Manifest{of("a.yaml", pv1), of("b.yaml", second), of("c.yaml", strings.ReplaceAll(pv1, "pv1", "pv2"))})
	var places []string
	for _, w := range report.Warnings {
		places = append(places, w.Pointer)
	}
	if got := strings.Join(places, " "); got != "/a.yaml /b.yaml" || len(report.Faults) > 0 {
		t.Errorf("warnings at %s: %v, faults %v", got, report.Warnings, report.Faults)
	}
}

func TestOneNameInTwoManifestsIsAFault(t *testing.T) {
	manifest := func(path, content string) params.Manifest {
		return params.ManifestOf(params.FileUse{Use: params.UseManifest, Path: path, Pointer: "/" + path}, []byte(content))
	}
	report := params.CheckManifests([]params.Manifest{
		manifest("a.yaml", pv1), manifest("broken.yaml", "["), manifest("b.yaml", strings.ReplaceAll(pv1, "nfs-pv1", "b")), manifest("c.yaml", pv1),
	})
	if len(report.Faults) != 1 || report.Faults[0].String() !=
		`/c.yaml: c.yaml registers PersistentVolume "nfs-pv1", as a.yaml does already; give each a name of its own` {
		t.Errorf("got %v", report.Faults)
	}
}

func TestScripts(t *testing.T) {
	faults, warnings := check(t, params.UseScript, "#!/bin/bash\n", nil)
	expect(t, "faults", faults+warnings, "")
	faults, _ = check(t, params.UseScript, "", nil)
	expect(t, "faults", faults, "is empty")
}

func TestAReaderThatFailsIsNoFaultOfTheUser(t *testing.T) {
	broken := errors.New("connection reset")
	for _, use := range []params.Use{params.UseManifest, params.UseCertificate, params.UseImage, params.UseScript} {
		for _, before := range []string{"", "a", strings.Repeat("a", 2000), pv1} {
			content := io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken))
			report, err := params.CheckFile(fileUse(use), content, nil, today)
			if !errors.Is(err, broken) || len(report.Faults) > 0 {
				t.Errorf("%s after %d bytes: %v, %v", use, len(before), report.Faults, err)
			}
		}
	}
	if _, err := params.CheckFile(fileUse("poem"), strings.NewReader(""), nil, today); err == nil {
		t.Error("a use that does not exist is no error")
	}
}

// TestFilesAreReadToTheirEnd: the check may sit behind a TeeReader that stores
// the file.
func TestFilesAreReadToTheirEnd(t *testing.T) {
	for _, use := range []params.Use{params.UseManifest, params.UseCertificate, params.UseImage, params.UseScript} {
		content := strings.NewReader(strings.Repeat("x", 3<<20))
		if _, err := params.CheckFile(fileUse(use), content, nil, today); err != nil || content.Len() > 0 {
			t.Errorf("%s: %d bytes are left, %v", use, content.Len(), err)
		}
	}
}

func TestFilesNamesEveryUseAtItsPlace(t *testing.T) {
	body := []byte(`{"flavourId":"s","additionalParams":{"k8s_cluster_installation_param":{"script_path":"./a.sh","helm_installation_script_path":"b.sh",
		"master_node":{"ssh_cp_name":"m","cluster_cp_name":"m"},"worker_node":{"ssh_cp_name":"w"},
		"storage_server":{"ssh_cp_name":"s","cinder_volume_setup_params":[{"volume_resource_id":"v","mount_to":"/v"}],"nfs_server_setup_params":[{"export_dir":"/v","export_to":"a"}]},
		"pv_registration_params":[{"pv_manifest_file_path":"../x","nfs_server_cp":"s"},{"pv_manifest_file_path":"p.yaml","nfs_server_cp":"s"}],
		"private_registry_connection_info":[{"connection_type":0,"server":"a:1"},7,{"connection_type":1,"server":"b:1","certificate_path":"ca.crt"}]}}}`)
	_, report := params.ParseRequest(body)
	if report.Partial == nil {
		t.Fatal(report.Faults)
	}
	var got []string
	for _, use := range params.Files(report.Partial, "/additionalParams") {
		got = append(got, string(use.Use)+" "+use.Path+" "+strings.TrimPrefix(use.Pointer, "/additionalParams/k8s_cluster_installation_param"))
	}
	want := []string{
		"script a.sh /script_path",
		"manifest p.yaml /pv_registration_params/1/pv_manifest_file_path",
		"certificate ca.crt /private_registry_connection_info/2/certificate_path",
		"script b.sh /helm_installation_script_path",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if params.Files(nil, "") != nil {
		t.Error("no parameters name files")
	}
}
