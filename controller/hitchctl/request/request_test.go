package request_test

import (
	"archive/zip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
)

const samples = "../../../shared/params/testdata/"

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(samples + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// expectFindings compares findings with "document pointer: words" lines.
func expectFindings(t *testing.T, what string, got []request.Finding, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d %s, want %d: %v", len(got), what, len(want), got)
	}
	for i, w := range want {
		place, words, _ := strings.Cut(w, ": ")
		document, pointer, _ := strings.Cut(place, " ")
		if got[i].Document != document || got[i].Pointer != pointer || !strings.Contains(got[i].Message, words) {
			t.Errorf("%s: got %+v, want %s", what, got[i], w)
		}
	}
}

func TestTheSpecificationsBodies(t *testing.T) {
	for _, name := range []string{"persistent-volumes", "private-registry", "registry-connections"} {
		r := request.Read("-", []byte(sample(t, name+".json")))
		if len(r.Faults) > 0 || r.Kind != request.Tacker || r.Params == nil || !json.Valid(r.Spec.AdditionalParams) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestBrokenBodiesAreNotAccepted(t *testing.T) {
	paths, err := filepath.Glob(samples + "broken/*.json")
	if err != nil || len(paths) < 10 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if r := request.Read("x", body); len(r.Faults) == 0 {
			t.Errorf("%s: no fault", path)
		}
	}
}

const registry = `{"private_registry_installation_param":{"ssh_cp_name":"CP1"}}`

func TestBodies(t *testing.T) {
	tests := map[string]struct {
		body     string
		kind     request.Kind
		faults   []string
		warnings []string
	}{
		"ours":           {`{"stackId":"s","additionalParams":` + registry + `}`, request.Envelope, nil, nil},
		"ours in YAML":   {"additionalParams:\n  private_registry_installation_param: {ssh_cp_name: CP1}\n", request.Envelope, nil, nil},
		"the least":      {`{"additionalParams":` + registry + `}`, request.Envelope, nil, nil},
		"Tacker's":       {`{"flavourId":"a","additionalParams":` + registry + `}`, request.Tacker, nil, nil},
		"both at once":   {`{"flavourId":"a","stackId":"s","additionalParams":` + registry + `}`, request.Tacker, nil, []string{"x /stackId: not known"}},
		"empty":          {"", request.Tacker, []string{"x : is empty"}, nil},
		"half of JSON":   {`{"flavourId":`, "", []string{"x : is not whole JSON: it ends at line 1"}, nil},
		"neither format": {"a: [", "", []string{"x : is not YAML"}, nil},
		"two documents":  {"a: 1\n---\nb: 2\n", "", []string{"x : expected one"}, nil},
		"ours, with everything wrong": {`{"stackId":1,"topologie":{},"topology":{"servers":[{"id":"x","name":"a"}]},"additionalParams":{"private_registry_installation_param":{}}}`,
			request.Envelope, []string{"x /stackId: expected a string", "x /topologie: topology",
				"x /additionalParams/private_registry_installation_param: ssh_cp_name"}, nil},
		"a topology that is wrong": {`{"topology":{"servers":[{"id":"x","name":"a"}]},"additionalParams":` + registry + `}`,
			request.Envelope, []string{"x /topology/servers/0/id: UUID"}, nil},
		"a topology without the server": {`{"topology":{"servers":[]},"additionalParams":` + registry + `}`,
			request.Envelope, nil, []string{`x /topology/servers: no server has the role registry: a server gets it by `}},
		"connections that are none": {`{"stackId":"s","vimConnectionInfo":{},"additionalParams":` + registry + `}`,
			request.Envelope, []string{"x /vimConnectionInfo: a list of objects"}, nil},
		"secrets of an answer": {`{"stackId":"s","foo":1,"vimConnectionInfo":[{"accessInfo":{"password":"[redacted]"}}],
			"additionalParams":{"private_registry_installation_param":{"ssh_cp_name":"CP1","ssh_password":"[redacted]"}}}`,
			request.Envelope, []string{"x /foo: known names", "x /vimConnectionInfo/0/accessInfo/password: send the secret itself",
				"x /additionalParams/private_registry_installation_param/ssh_password: send the secret itself"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := request.Read("x", []byte(test.body))
			if r.Kind != test.kind {
				t.Errorf("got kind %q, want %q", r.Kind, test.kind)
			}
			expectFindings(t, "faults", r.Faults, test.faults)
			expectFindings(t, "warnings", r.Warnings, test.warnings)
		})
	}
}

func TestConnectionsOfTackersSecondVersion(t *testing.T) {
	r := request.Read("x", []byte(`{"flavourId":"a","vimConnectionInfo":{"b":{"vimType":"x"},"a":{"vimId":"1"}},"additionalParams":`+registry+`}`))
	if got, want := string(r.Spec.VimConnectionInfo), `[{"vimId":"1"},{"vimType":"x"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestATopologyOfItsOwn(t *testing.T) {
	body := []byte(`{"flavourId":"a","additionalParams":` + registry + `}`)
	const server = `{"servers":[{"id":"4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1","name":"r","connectionPoints":[{"name":"CP1"}]}]}`
	r := request.Read("x", body)
	r.UseTopology("t", []byte(server))
	if len(r.Faults)+len(r.Warnings) > 0 || r.Spec.Topology == nil {
		t.Errorf("got %+v", r)
	}
	r = request.Read("x", []byte(`{"flavourId":"a","additionalParams":{"private_registry_installation_param":{"ssh_cp_name":"CP1","volume_resource_id":"v","mount_to":"/volume"}}}`))
	r.UseTopology("t", []byte(server))
	expectFindings(t, "warnings", r.Warnings, []string{`t /volumes: no volume has the resourceId "v"`})
	r = request.Read("x", body)
	r.UseTopology("t", []byte(`{"server":[]}`))
	expectFindings(t, "faults", r.Faults, []string{"t /server: servers"})
}

// pack is a package directory with the PersistentVolume sample's files, and what
// the test changes.
func pack(t *testing.T, changes map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"Scripts/install_k8s_cluster.sh": "#!/bin/sh\n"}
	for _, n := range []string{"1", "2", "3"} {
		files["Files/kubernetes/nfs-pv"+n+".yaml"] = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv" + n +
			"}\nspec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], nfs: {server: 10.0.0.1, path: /volume/nfs/pv" + n + "}}\n"
	}
	for name, content := range changes {
		files[name] = content
	}
	for name, content := range files {
		if content == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const pvs = "x /additionalParams/k8s_cluster_installation_param/pv_registration_params/"

func TestPackages(t *testing.T) {
	const first, second = "Files/kubernetes/nfs-pv1.yaml", "Files/kubernetes/nfs-pv2.yaml"
	tests := map[string]struct {
		changes map[string]string
		change  func(t *testing.T, dir string)
		files   int
		faults  []string
	}{
		"complete":        {nil, nil, 4, nil},
		"two are missing": {map[string]string{first: "", second: ""}, nil, 2, []string{pvs + "0/pv_manifest_file_path: nfs-pv1.yaml is not in the package", pvs + "1/pv_manifest_file_path: not in"}},
		"no manifest":     {map[string]string{first: "kind: Pod\n"}, nil, 4, []string{pvs + "0/pv_manifest_file_path: apiVersion", pvs + "0/pv_manifest_file_path: PersistentVolume"}},
		"one name twice": {map[string]string{second: "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv1}\nspec: {nfs: {path: /volume/nfs/pv2}}\n"}, nil, 4,
			[]string{pvs + "1/pv_manifest_file_path: registers PersistentVolume \"pv1\", as"}},
		"a directory": {map[string]string{first: ""}, func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, first), 0o755); err != nil {
				t.Fatal(err)
			}
		}, 3, []string{pvs + "0/pv_manifest_file_path: no regular file"}},
		"a link out of it": {map[string]string{first: ""}, func(t *testing.T, dir string) {
			if err := os.Symlink("/etc/hostname", filepath.Join(dir, first)); err != nil {
				t.Fatal(err)
			}
		}, 3, []string{pvs + "0/pv_manifest_file_path: escapes"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := pack(t, test.changes)
			if test.change != nil {
				test.change(t, dir)
			}
			p, err := request.OpenPackage(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			r := request.Read("x", []byte(sample(t, "persistent-volumes.json")))
			files, err := r.CheckFiles(p, now)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) != test.files {
				t.Errorf("got %d files, want %d: %+v", len(files), test.files, files)
			}
			expectFindings(t, "faults", r.Faults, test.faults)
		})
	}
}

// The templates decide which volumes and connection points a stack gets.
// Of a body that is sent, the placeholders of additionalParams are the controller's business;
// it keeps no secret of anything else.
func TestABodyToSendMayHavePlaceholders(t *testing.T) {
	const given = `{"private_registry_installation_param": {"ssh_cp_name":"CP1","ssh_password":"[redacted]"}}`
	for _, body := range []string{`{"additionalParams":` + given + `}`, `{"flavourId":"a","additionalParams":` + given + `}`} {
		r := request.ReadToSend("x", []byte(body))
		expectFindings(t, "faults", r.Faults, nil)
		if string(r.Spec.AdditionalParams) != given {
			t.Errorf("%s is sent as %s", given, r.Spec.AdditionalParams)
		}
	}
	proxied := strings.Replace(sample(t, "registry-connections.json"), "user1:password1@", "[redacted]@", 1)
	expectFindings(t, "faults", request.ReadToSend("x", []byte(proxied)).Faults, nil)
	r := request.ReadToSend("x", []byte(`{"vimConnectionInfo":[{"accessInfo":{"password":"[redacted]"}}],"additionalParams":`+given+`}`))
	expectFindings(t, "faults", r.Faults, []string{"x /vimConnectionInfo/0/accessInfo/password: placeholder"})
}

func TestTemplates(t *testing.T) {
	const server, storage = "x /additionalParams/k8s_cluster_installation_param/", "x /additionalParams/k8s_cluster_installation_param/storage_server/"
	hot := func(resources ...string) string {
		text := "heat_template_version: 2018-08-31\nresources:\n"
		for _, r := range append(resources, "master_instance OS::Heat::AutoScalingGroup", "worker_instance OS::Heat::AutoScalingGroup") {
			name, kind, _ := strings.Cut(r, " ")
			text += "  " + name + ": {type: \"" + kind + "\"}\n"
		}
		return text
	}
	volume := "storage_server_volume OS::Cinder::Volume"
	points := []string{"masterNode_CP1 OS::Neutron::Port", "workerNode_CP2 OS::Neutron::Port", "storage_server_CP OS::Neutron::Port", "vip_CP OS::Neutron::Port"}
	top := "BaseHOT/simple/top.yaml"
	for name, c := range map[string]struct {
		files            map[string]string
		faults, warnings []string
	}{
		"no template":                {map[string]string{"Files/volume.yaml": hot()}, nil, nil},
		"what is no template":        {map[string]string{"BaseHOT/simple/environment.yaml": "parameters: {a: 1}\n"}, nil, nil},
		"all is there":               {map[string]string{top: hot(append(points, volume)...)}, nil, nil},
		"nested":                     {map[string]string{top: hot(append(points, "group OS::Heat::AutoScalingGroup", "v volume.yaml")...), "BaseHOT/simple/nested/volume.yaml": hot(volume)}, nil, nil},
		"another volume":             {map[string]string{top: hot(append(points, "data OS::Cinder::Volume", "more OS::Cinder::Volume")...)}, []string{storage + "cinder_volume_setup_params/0/volume_resource_id: \"storage_server_volume\" is no volume (OS::Cinder::Volume) of BaseHOT/simple/top.yaml; expected data or more"}, nil},
		"no volume":                  {map[string]string{top: hot(points...)}, []string{storage + "cinder_volume_setup_params/0/volume_resource_id: expected one, and the templates have none"}, nil},
		"of another flavour":         {map[string]string{top: hot(points...), "BaseHOT/other/top.yaml": hot(volume)}, []string{storage + "cinder_volume_setup_params/0/volume_resource_id: of BaseHOT/simple/top.yaml;"}, nil},
		"flavours of other names":    {map[string]string{"BaseHOT/other/top.yaml": hot(append(points, volume)...)}, nil, nil},
		"a server is not a volume":   {map[string]string{top: hot(append(points, "storage_server_volume OS::Nova::Server")...)}, []string{storage + "cinder_volume_setup_params/0/volume_resource_id: OS::Cinder::Volume"}, nil},
		"a floating IP is a point":   {map[string]string{top: hot("masterNode_CP1 OS::Neutron::FloatingIP", points[1], points[2], points[3], volume)}, nil, nil},
		"no point of the masters":    {map[string]string{top: hot(points[1], points[2], volume, points[3])}, nil, []string{server + "master_node/ssh_cp_name: expected storage_server_CP or vip_CP or workerNode_CP2"}},
		"what only the cloud knows":  {map[string]string{top: hot(append(points, "x My::Volumes")...)}, nil, []string{storage + "cinder_volume_setup_params/0/volume_resource_id: or one that My::Volumes makes"}},
		"a template that is no YAML": {map[string]string{top: hot(append(points, volume)...), "BaseHOT/simple/broken.yml": "a: ["}, []string{"BaseHOT/simple/broken.yml : is not YAML"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := request.OpenPackage(pack(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			r := request.Read("x", []byte(sample(t, "persistent-volumes.json")))
			r.Warnings = nil // of the body
			if err := r.CheckTemplates(p); err != nil {
				t.Fatal(err)
			}
			expectFindings(t, "faults", r.Faults, c.faults)
			expectFindings(t, "warnings", r.Warnings, c.warnings)
		})
	}
}

func TestACSARIsAPackage(t *testing.T) {
	dir := pack(t, nil)
	path := filepath.Join(t.TempDir(), "vnf.csar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var sums []string
	for _, path := range []string{dir, path} {
		p, err := request.OpenPackage(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		r := request.Read("x", []byte(sample(t, "persistent-volumes.json")))
		files, err := r.CheckFiles(p, now)
		if err != nil || len(files) != 4 || len(r.Faults) > 0 {
			t.Fatalf("%v: %+v %v", err, files, r.Faults)
		}
		sums = append(sums, files[1].SHA256)
	}
	if sums[0] != sums[1] {
		t.Errorf("a file differs between directory and CSAR: %v", sums)
	}
	if _, err := request.OpenPackage("request.go"); err == nil || !strings.Contains(err.Error(), "neither a directory nor a CSAR") {
		t.Errorf("got %v", err)
	}
}
