package tacker

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/packaging/python"
)

// TestHooksOfRealTacker runs hooks with the classes and the database of a tree of Tacker. What
// only this test notices is a driver that saves the request with VnfLcmOpOcc.save(), which
// Tacker leaves out of what it saves. That is no mutation, because it needs such a tree.
func TestHooksOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker", "the driver has Tacker's own base class, objects and exceptions; a retry's request, in Tacker's database, has the join parameters")
	folder := source(t)
	w := newWorld(t)
	v := w.newVNF()
	body, err := json.Marshal(v.body)
	if err == nil {
		err = os.WriteFile(w.path("body.json"), body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := w.python("testdata/real.py", v.folder(), w.path("body.json"), v.id)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+w.path("installed")+":"+folder)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
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

// TestTheVIMOfRealTacker takes a VIM through its life in Tacker's own database.
func TestTheVIMOfRealTacker(t *testing.T) {
	results.Begin(t, suite, "real-tacker-vim", "Tacker's own plugin registers, changes, registers anew and deletes the VIM of a cluster, for either API; a CNF of the v2 API gets it; no key stays behind, and no log at DEBUG has the token")
	w := &world{t: t, whole: t, dir: t.TempDir(), interpreter: interpreter(t, t.TempDir())}
	conf := w.path("home/.tacker/tacker.conf")
	if err := errors.Join(python.Write("../..", w.path("installed"), "1.2.3"), os.MkdirAll(filepath.Dir(conf), 0o700),
		os.WriteFile(conf, []byte("[DEFAULT]\ntransport_url = fake:/\n[database]\nconnection = sqlite:///"+w.path("database")+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := w.python("testdata/real_vim.py", w.path("log"))
	cmd.Env = append(cmd.Env, "PYTHONPATH="+w.path("installed")+":"+source(t), "HOME="+w.path("home"), "PBR_VERSION=1.2.3")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	type life struct {
		Steps []struct {
			VIMs []struct {
				ID, Name, URL, Token string
				Extra                map[string]map[string]string
			}
			Asked, Keys int
			Error       string
		}
		CNF struct {
			VIMType                   string
			InterfaceInfo, AccessInfo map[string]string
		}
	}
	var got struct {
		V1, V2  life
		Outside int
		Away    string
	}
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
	}
	const same, another = "https://10.0.0.1:6443", "https://10.0.0.2:6443"
	for version, life := range map[string]life{"v1": got.V1, "v2": got.V2} {
		asks := life.Steps[0].Asked // for one registration
		for i, want := range []struct {
			url, token  string
			times, vims int
			error       string
		}{
			{same, "token-one", 1, 1, ""},
			{same, "token-one", 1, 1, ""},
			{same, "token-two", 2, 1, ""},
			{another, "token-two", 3, 1, ""},
			{another, "token-two", 4, 1, "DuplicateEntity"}, // of another VNF's VIM with this name
			{another, "token-two", 4, 1, ""},
			{"", "", 4, 0, ""},
		} {
			got := life.Steps[i]
			if asks == 0 || len(got.VIMs) != want.vims || got.Keys != want.vims || got.Asked != want.times*asks ||
				!strings.Contains(got.Error, want.error) || want.error == "" && got.Error != "" {
				t.Errorf("%s: after step %d Tacker has %+v, want %+v", version, i, got, want)
			}
			for _, vim := range got.VIMs {
				if vim.URL != want.url || vim.Token != want.token || vim.Name != "name" || vim.Extra["nodehitch"]["vnfInstanceId"] != "vnf" {
					t.Errorf("%s: after step %d Tacker has the VIM %+v, want %+v", version, i, vim, want)
				}
			}
		}
		// Releases before 2023.1 change the type when they use it.
		if cnf := life.CNF; cnf.VIMType != "ETSINFV.KUBERNETES.V_1" && cnf.VIMType != "kubernetes" || !maps.Equal(cnf.InterfaceInfo, map[string]string{"endpoint": another, "ssl_ca_cert": "CA"}) ||
			!maps.Equal(cnf.AccessInfo, map[string]string{"bearer_token": "token-two"}) {
			t.Errorf("%s: a CNF gets %+v", version, cnf)
		}
	}
	if got.Outside != 0 || !strings.Contains(got.Away, "the VIM of VNF instance vnf: Tacker's database does not tell the project of VNFD ") {
		t.Errorf("without a package Tacker has %d VIMs; without tables the driver says %q", got.Outside, got.Away)
	}
	t.Log(got.Away)
	if log, err := os.ReadFile(w.path("log")); err != nil || len(log) == 0 || bytes.Contains(log, []byte("token-")) {
		t.Errorf("Tacker's log has the token, or nothing (%v):\n%s", err, log)
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
