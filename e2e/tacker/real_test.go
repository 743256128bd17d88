package tacker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/packaging/python"
)

// TestHooksOfRealTacker runs hooks with the classes and the database of a tree of Tacker. What
// only this test notices is a driver that saves the request with VnfLcmOpOcc.save(), which
// Tacker leaves out of what it saves. That is not kept as a break, because it needs such a tree.
func TestHooksOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker", "the driver has Tacker's own base class, objects and exceptions; a retry's request, in Tacker's database, has the join parameters")
	source(t)
	w := newTackerMachine(t)
	v := w.newVNF()
	body, err := json.Marshal(v.body)
	if err == nil {
		err = os.WriteFile(w.path("body.json"), body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := newDatabase(w).run("testdata/real.py", v.folder(), v.vnfd(), w.path("body.json"), v.id)
	var got struct {
		Base, Shared         bool
		File, Raised         string
		Request, Kept, Other object
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	installed, err := os.ReadFile(got.File)
	if err != nil {
		t.Fatal(err)
	}
	if shim, err := os.ReadFile("../../packaging/tacker/shim/nodehitch_mgmt.py"); err != nil || !bytes.Equal(shim, installed) {
		t.Errorf("Tacker would hash %s, which is not the shim (%v)", filepath.Base(got.File), err)
	}
	if !got.Base || got.Shared {
		t.Errorf("the driver is of Tacker's class: %v; Tacker shares the request's parameters with the instance: %v", got.Base, got.Shared)
	}
	for _, name := range joinParameters {
		if got.Request[name] == nil || got.Kept[name] == nil || got.Other["additionalParams"] != nil {
			t.Errorf("%s: the request has %v, a retry %v, another occurrence %v", name, got.Request[name], got.Kept[name], got.Other)
		}
	}
	if !strings.HasPrefix(got.Raised, "An error occurred in MgmtDriver: ") || !strings.Contains(got.Raised, "INSTANTIATED") {
		t.Errorf("raised %q", got.Raised)
	}
	v.asRecorded(0, "INSTANTIATE START COMPLETED")
}

// TestTheVIMOfRealTacker takes a VIM through its life in Tacker's own database. Each step is a
// process of its own.
func TestTheVIMOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker-vim", "Tacker's own plugin registers, changes, registers anew and deletes the VIM of a cluster, for either API, each in a process that has not touched Tacker's database before; a CNF of the v2 API gets it; no key stays behind, and no log at DEBUG has the token")
	const same, another = "https://10.0.0.1:6443", "https://10.0.0.2:6443"
	life := []struct {
		call, vnf, url, token string
		times, vims           int
		error                 string
	}{
		{"register", "vnf", same, "token-one", 1, 1, ""},
		{"register", "vnf", same, "token-one", 1, 1, ""},
		{"register", "vnf", same, "token-two", 2, 1, ""},
		{"register", "vnf", another, "token-two", 3, 1, ""},
		{"register", "other", "https://10.0.0.3:6443", "token-three", 4, 1, "DuplicateEntity"}, // the name is another VNF's
		{"delete", "other", "", "", 4, 1, ""},
		{"delete", "vnf", "", "", 4, 0, ""},
	}
	access := func(url, token string) object {
		return object{"endpoint": strings.TrimPrefix(url, "https://"), "caCertificate": "CA", "token": token}
	}
	for _, version := range []string{"v1", "v2"} {
		steps := []object{{"call": "prepare"}}
		for _, step := range life {
			args := []any{}
			if step.call == "register" {
				args = []any{"name", access(step.url, step.token)}
			}
			steps = append(steps, object{"api": version, "call": step.call, "vnf": step.vnf, "args": args, "cnf": step.call+step.vnf == "deleteother"})
		}
		if version == "v2" { // a VNF whose package an NFVO outside has
			steps = append(steps, object{"api": version, "call": "register", "vnf": "unknown", "args": []any{"name", access(same, "token-one")}},
				object{"api": version, "call": "delete", "vnf": "unknown", "args": []any{}})
		}
		r := newRealDatabase(t)
		answers := r.steps(steps...)[1:]
		asks := answers[0].Asked // for one registration
		for i, want := range life {
			got := answers[i]
			if asks == 0 || len(got.VIMs) != want.vims || got.Keys != want.vims || got.Asked != want.times*asks ||
				!strings.Contains(got.Error, want.error) || want.error == "" && got.Error != "" {
				t.Errorf("%s: after step %d Tacker has %+v, want %+v", version, i, got, want)
			}
			if i >= 4 { // of the other VNF
				want.url, want.token = another, "token-two"
			}
			for _, vim := range got.VIMs {
				if vim.URL != want.url || vim.Token != want.token || vim.Name != "name" || vim.Project != "tenant" || vim.Extra["nodehitch"]["vnfInstanceId"] != "vnf" {
					t.Errorf("%s: after step %d Tacker has the VIM %+v, want %+v", version, i, vim, want)
				}
			}
		}
		// Releases before 2023.1 change the type when they use it.
		if cnf := answers[5].CNF; cnf.VIMType != "ETSINFV.KUBERNETES.V_1" && cnf.VIMType != "kubernetes" ||
			!maps.Equal(cnf.InterfaceInfo, map[string]string{"endpoint": another, "ssl_ca_cert": "CA"}) ||
			!maps.Equal(cnf.AccessInfo, map[string]string{"bearer_token": "token-two"}) {
			t.Errorf("%s: a CNF gets %+v", version, cnf)
		}
		for _, got := range answers[len(life):] {
			if len(got.VIMs) != 0 || got.Error != "" {
				t.Errorf("without a package Tacker has %+v", got)
			}
		}
		if log, err := os.ReadFile(r.path("state.log")); err != nil || len(log) == 0 || bytes.Contains(log, []byte("token-")) {
			t.Errorf("Tacker's log has the token, or nothing (%v):\n%s", err, log)
		}
	}
	away := newRealDatabase(t).steps(object{"api": "v2", "call": "delete", "vnf": "vnf", "args": []any{}, "look": false})[0]
	if !strings.Contains(away.Error, "VNF instance vnf: Tacker's database does not tell the VNF package of VNFD ") {
		t.Errorf("without tables the driver says %q", away.Error)
	}
	t.Log(away.Error)
}

// realDatabase is Tacker's own, in SQLite, without tables.
type realDatabase struct{ *tackerMachine }

func newRealDatabase(t *testing.T) realDatabase {
	t.Helper()
	return newDatabase(&tackerMachine{t: t, whole: t, dir: t.TempDir(), interpreter: interpreter(t, t.TempDir())})
}

// newDatabase is that of a machine with a controller.
func newDatabase(w *tackerMachine) realDatabase {
	w.t.Helper()
	r := realDatabase{w}
	conf := r.path("home/.tacker/tacker.conf")
	text := "[DEFAULT]\ntransport_url = fake:/\n[database]\nconnection = sqlite:///" + r.path("database") + "\n" +
		"[vnf_package]\nvnf_package_csar_path = " + r.path("packages") + "\n"
	if err := errors.Join(python.Write("../..", r.path("installed"), "1.2.3"), os.MkdirAll(filepath.Dir(conf), 0o700),
		os.MkdirAll(r.path("packages"), 0o700), os.WriteFile(conf, []byte(text), 0o600)); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// run is what a program prints with Tacker's own modules.
func (r realDatabase) run(argv ...string) []byte {
	r.t.Helper()
	return r.answers(nil, argv...)
}

// answers is run with something on its standard input.
func (r realDatabase) answers(input []byte, argv ...string) []byte {
	r.t.Helper()
	cmd := r.python(argv...)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+r.path("installed")+":"+source(r.t), "HOME="+r.path("home"), "PBR_VERSION=1.2.3")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%v: %v\n%s%s", argv, err, out, stderr.Bytes())
	}
	return out
}

// vimStep is what Tacker has after a step in the life of a VIM.
type vimStep struct {
	VIMs []struct {
		ID, Name, URL, Token, Project string
		Extra                         map[string]map[string]string
	}
	Asked, Keys int
	Error       string
	CNF         struct {
		VIMType                   string
		InterfaceInfo, AccessInfo map[string]string
	}
}

func (r realDatabase) steps(steps ...object) (got []vimStep) {
	r.t.Helper()
	text, err := json.Marshal(steps)
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.run("testdata/real_vim.py", r.path("state"), string(text))
	if err := json.Unmarshal(out, &got); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	return got
}

// TestHealsOfRealTacker takes stacks of the v1 API through heals of VNFCs and of the entire VNF, through rollbacks of
// scale-outs, as Tacker keeps their parameters, and through changes of connectivity after scalings.
func TestHealsOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker-heals", "Tacker's own conductor and OpenStack driver give Heat the right parameters at each of ten operations, with packages of this release and of earlier ones; VNFs whose kept parameters were altered, up to what YAML cannot read, are mended; what Tacker keeps does not grow; after a scaling Tacker sends Heat the old sizes, which the driver refuses or corrects")
	source(t)
	w := newTackerMachine(t)
	v := w.newVNF()
	v.instantiateStart()
	out := newDatabase(w).run("testdata/real_v1.py", v.id)
	var lives []struct {
		Case   string
		Faults []string
		Bytes  []int
	}
	if err := json.Unmarshal(out, &lives); err != nil || len(lives) != 13 {
		t.Fatalf("%d lives: %v\n%s", len(lives), err, out)
	}
	for _, life := range lives {
		t.Logf("%s: Tacker keeps %d bytes", life.Case, life.Bytes)
		for _, fault := range life.Faults {
			t.Errorf("%s: %s", life.Case, fault)
		}
	}
}

// TestHealRequestOfRealTacker has the additionalParams of a heal reach the hooks as they are, and none of what an alert begins.
func TestHealRequestOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker-heal-request", "the additionalParams of a heal reach the hooks of either API as they are, in Tacker's own objects; a heal that an alert begins has none")
	tree := source(t)
	given := object{"persistent_volumes": "keep", "old_server_is_off": true}
	body, err := json.Marshal([]object{{"vnfcInstanceId": []string{uuid.NewString()}, "additionalParams": given}, {"vnfcInstanceId": []string{uuid.NewString()}}})
	if err != nil {
		t.Fatal(err)
	}
	out := newRealDatabase(t).run("testdata/real_heal.py", string(body))
	var got [][]object
	want := [][]object{{given, given}, {{}, {}}}
	if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the hooks get %v (%v), want %v", got, err, want)
	}
	const alerts = "tacker/sol_refactored/conductor/prometheus_plugin_driver.py"
	text, err := os.ReadFile(filepath.Join(tree, alerts))
	if !errors.Is(err, fs.ErrNotExist) && !strings.Contains(string(text), "objects.HealVnfRequest(vnfcInstanceId=vnfc_info_ids)") { // not in Zed
		t.Errorf("%s makes another request (%v)", alerts, err)
	}
}

// TestWhosePackageOfRealTacker has two projects with one VNFD id. The content of one package
// contains that of the other.
func TestWhosePackageOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker-whose", "of two projects with one VNFD id, or with packages of the same content, the driver takes no other's files and registers no VIM with the other's project, in whatever order they are onboarded: what Tacker does not tell, is refused; if an NFVO outside has the packages, it takes none of Tacker's")
	source(t)
	const runs = 200
	out := newRealDatabase(t).run("testdata/real_whose.py", strconv.Itoa(runs))
	var got struct {
		Files, VIMs, Refused, Outside int
		Faults                        []string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("in %d runs: files taken %d times, VIMs %d times, refused %d times", runs, got.Files, got.VIMs, got.Refused)
	// Of each project: its own package by id for files and VIM; of the shared id what a user's context tells, and
	// an administrator's for the package that Tacker finds first.
	if len(got.Faults) > 0 || got.Files != runs*5 || got.VIMs != runs*2 || got.Refused != runs*5 || got.Outside != runs*2 {
		t.Errorf("%+v", got)
	}
}

// source is a tree of Tacker.
func source(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("TACKER_SOURCE")
	if folder == "" {
		t.Skip("TACKER_SOURCE names no tree of Tacker; TACKER_PYTHON names a Python with what it imports")
	}
	return folder
}

// TestAChangeOfThePackageOfRealTacker has Tacker's own v2 driver around the hooks.
func TestAChangeOfThePackageOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker-package", "for a change of the package that names no VDU, Tacker's own v2 driver runs both hooks from the new package, and sends Heat what it has already, as its rollback does; the instance has the new VNFD")
	driver, err := os.ReadFile(filepath.Join(source(t), "tacker/sol_refactored/conductor/vnflcm_driver_v2.py"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(driver, []byte("change_current_package")) {
		t.Skip("Tacker before 2023.2 calls no hook at a change of the package")
	}
	w := newTackerMachine(t)
	v := w.newVNF().asV2()
	v.instantiated()
	before := v.next()
	nfv, info := v.kept.heat.Parameters["nfv"], v.info()
	info["metadata"].(object)["nfv"] = nfv
	for _, each := range info["vnfcResourceInfo"].([]object) {
		each["metadata"] = object{"flavor": "m1.small"}
	}
	instance := object{"id": v.id, "vnfdId": v.vnfd(), "vnfInstanceName": "web", "instantiationState": "INSTANTIATED", "instantiatedVnfInfo": info,
		"vimConnectionInfo": object{"vim1": v.vim()}}
	folders := object{v.vnfd(): v.folder()}
	v.anotherPackage()
	folders[v.vnfd()] = v.folder()
	request := object{"vnfdId": v.vnfd(), "additionalParams": v.changed()}
	out := newDatabase(w).answers(asJSON(t, object{"instance": instance, "request": request, "folders": folders, "nfv": nfv}), "testdata/real_v2.py")
	var got struct {
		Sent        []struct{ Parameters object }
		VNFD, Error string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Error != "" || got.VNFD != v.vnfd() || len(got.Sent) != 2 {
		t.Errorf("Tacker has %+v; want the VNFD %s, and an update of Heat by the change and by the rollback", got, v.vnfd())
	}
	for _, update := range got.Sent {
		if !reflect.DeepEqual(update.Parameters, object{"nfv": nfv}) {
			t.Errorf("Heat was sent %v, want what it has: %v", update.Parameters, nfv)
		}
	}
	v.asRecorded(before, "CHANGE_VNFPKG START COMPLETED", "CHANGE_VNFPKG END COMPLETED")
	if name := v.instance().Name; name != "web" {
		t.Errorf("the instance has the name %q", name)
	}
}
