package tacker

import (
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/results"
)

// withVIM brings a VNF into service whose cluster has this access, and returns how the last hook has ended.
func (v *v2) withVIM(ca, token string) ended {
	v.t.Helper()
	v.succeeds("instantiate_start", v.body, nil)
	v.created()
	v.grants(ca, token)
	return v.exec("instantiate_end", v.body, nil)
}

// operation runs the two hooks of one, with what Heat does between them.
func (v *v2) operation(name string, request object, heat func()) {
	v.t.Helper()
	v.next()
	v.healing = request // if it is one to heal
	v.succeeds(name+"_start", request, nil)
	heat()
	v.succeeds(name+"_end", request, nil)
}

// says asserts that a hook has failed with one line that has these texts and no token.
func (e ended) says(t *testing.T, texts ...string) {
	t.Helper()
	t.Log(e.Error)
	for _, text := range texts {
		if e.Code != 1 || !strings.Contains(e.Error, text) {
			t.Errorf("exit %d: %s; want %q", e.Code, e.Error, text)
		}
	}
	if strings.Contains(e.Error, "-token") || strings.Count(e.Error, `\n`) != 1 {
		t.Errorf("the text is %s", e.Error)
	}
}

// TestTheVIMOfAClusterByTheScript takes the VIM of a cluster through its life.
func TestTheVIMOfAClusterByTheScript(t *testing.T) {
	results.Begin(t, suite, "cluster-vim/v2", "by the v2 script the VIM of a cluster is registered at instantiation, changed after a heal and if the endpoint moves and goes back, and deleted at termination")
	w := newTackerMachine(t)
	v := w.newMembers("").asV2()
	name := "kubernetes_vim_" + v.id
	if e := v.withVIM("CA one", "token-one"); e.Code != 0 {
		t.Fatalf("exit %d: %s", e.Code, e.Error)
	}
	made := v.only(name, "CA one", "token-one")
	v.succeeds("instantiate_end", v.body, nil) // a retry
	v.operation("modify_information", object{}, func() {})
	if again := v.only(name, "CA one", "token-one"); again.ID != made.ID || again.Changes != 1 {
		t.Errorf("without a change the VIM was %+v, is %+v", made, again)
	}

	v.operation("heal", healOf(v.storage), func() {
		v.healed(v.storage)
		v.grants("CA two", "token-two")
		v.told("token-two")
	})
	if healed := v.only(name, "CA two", "token-two"); healed.ID != made.ID || healed.Changes != 2 {
		t.Errorf("after the heal of the storage server the VIM was %+v, is %+v", made, healed)
	}

	v.operation("heal", v.healAll(), func() {
		for _, s := range v.servers() {
			s.address = address()
		}
		v.healed()
		v.grants("CA three", "token-three")
	})
	healed := v.only(name, "CA three", "token-three")
	if healed.ID == made.ID {
		t.Error("at another endpoint the VIM is the same")
	}

	request := object{"extVirtualLinks": []object{{"extCps": []object{{"cpdId": v.masters[0].point}}}}}
	before := v.masters[0].address
	v.operation("change_external_connectivity", request, func() {
		v.masters[0].address = address()
		v.updated()
	})
	if moved := v.only(name, "CA three", "token-three"); moved.ID == healed.ID {
		t.Error("after a change of external connectivity the VIM is the same")
	}
	v.masters[0].address = before
	v.updated()
	v.succeeds("change_external_connectivity_rollback_end", request, nil)
	v.only(name, "CA three", "token-three")

	v.next()
	v.succeeds("terminate_start", object{}, nil)
	v.deleted()
	v.succeeds("terminate_end", object{}, nil)
	if left := w.vims(); len(left) > 0 {
		t.Errorf("TERMINATE has left %+v", left)
	}
	if strings.Contains(string(w.Log()), "token-") {
		t.Error("a log has the token")
	}
}

// TestAVIMThatTheScriptCannotRegister shows what Tacker shows then, and that a retry registers one VIM.
func TestAVIMThatTheScriptCannotRegister(t *testing.T) {
	results.Begin(t, suite, "cluster-vim-refused/v2", "a VIM that the v2 script cannot register fails the hook by name and without the token; a retry registers one, also after a script that was killed; a rollback deletes it, also if the controller has forgotten the instance; VIMs of others stay; without a package of Tacker's there is none")
	w := newTackerMachine(t)
	v := w.newMembers("mine").asV2()
	url := "https://" + v.masters[0].address + ":6443"
	foreign := []vimOfTacker{
		{ID: "taken", Name: "taken", Type: "kubernetes", Tenant: "tenant", URL: url},
		{ID: "forged", Name: "mine", Type: "kubernetes", Tenant: "another", URL: url,
			Extra: map[string]map[string]string{"nodehitch": {"vnfInstanceId": v.id}}},
	}
	w.database(func(d *database) { d.VIMs = foreign })
	v.withVIM("CA", "refused-token").says(t, "VIM mine of VNF instance "+v.id, url, "VimUnauthorizedException: (401)", "[redacted]")

	state, away := w.path("state.json"), w.path("away.json")
	if err := os.Rename(state, away); err != nil {
		t.Fatal(err)
	}
	v.exec("instantiate_end", v.body, nil).says(t, "VNF instance "+v.id+": Tacker's database does not tell the VNF package", v.vnfd(), "FileNotFoundError")
	if err := os.Rename(away, state); err != nil {
		t.Fatal(err)
	}

	v.grants("CA", "killed-token")
	v.told("killed-token")
	if e := v.exec("instantiate_end", v.body, nil); e.Code != -9 {
		t.Errorf("the script was not killed: exit %d: %s", e.Code, e.Error)
	}
	v.succeeds("instantiate_end", v.body, nil)
	ours := func() (list []vimOfTacker) {
		for _, each := range w.vims() {
			if each.ID != "taken" && each.ID != "forged" {
				list = append(list, each)
			} else if each.Credential.Token != "" {
				t.Errorf("the VIM of others is %+v", each)
			}
		}
		return list
	}
	if list := ours(); len(list) != 1 || list[0].Changes != 1 || list[0].Tenant != "tenant" || list[0].Credential.Token != "killed-token" || len(w.vims()) != 3 {
		t.Errorf("after the retry Tacker has %+v, want one more than before", w.vims())
	}
	v.deleted()
	for _, byHand := range [][]string{{"operate", v.id, "TERMINATE", "--wait"}, {"delete", "instance", v.id}} {
		if _, err := w.Hitchctl(byHand...); err != nil {
			t.Fatal(err)
		}
	}
	v.succeeds("instantiate_rollback_end", v.body, nil)
	if list := ours(); len(list) > 0 || len(w.vims()) != 2 {
		t.Errorf("the rollback has left %+v, want those of others alone", w.vims())
	}

	taken := w.newMembers("taken").asV2()
	taken.withVIM("CA", "a-token").says(t, "VIM taken of VNF instance "+taken.id, "https://"+taken.masters[0].address+":6443", "DuplicateEntity")
	taken.deleted()
	taken.succeeds("instantiate_rollback_end", taken.body, nil)

	outside := w.newMembers("").asV2()
	unknown := object{"vnf_instance": object{"id": outside.id, "vnfdId": "of an NFVO outside"}}
	outside.succeeds("instantiate_start", outside.body, nil)
	outside.created()
	outside.grants("CA", "token-one")
	outside.told("token-one")
	outside.succeeds("instantiate_end", outside.body, unknown)
	outside.deleted()
	outside.succeeds("instantiate_rollback_end", outside.body, unknown)
	if list := ours(); len(list) > 0 || len(w.vims()) != 2 {
		t.Errorf("Tacker has %+v, want those of others alone", w.vims())
	}
}

// TestAScriptThatNeedsNoTacker ends a VNF without a cluster while Tacker's database is away.
func TestAScriptThatNeedsNoTacker(t *testing.T) {
	results.Begin(t, suite, "cluster-vim-none/v2", "a VNF without a cluster ends while the script cannot read Tacker's database")
	w := newTackerMachine(t)
	registry := w.readVNF("../../shared/params/testdata/private-registry.json")
	registry.registry = registry.newServer("PrivateRegistryVDU", "CP1")
	delete(registry.wanted()["private_registry_installation_param"].(object), "image_path")
	registry.wanted()["lcm-operation-user-data"] = "./UserData/k8s_cluster_user_data.py" // which the specification's request lacks
	registry.wanted()["lcm-operation-user-data-class"] = "KubernetesClusterUserData"
	v := registry.asV2()
	v.instantiated()
	if err := os.Remove(w.path("state.json")); err != nil {
		t.Fatal(err)
	}
	v.next()
	v.succeeds("terminate_start", object{}, nil)
	v.deleted()
	v.succeeds("terminate_end", object{}, nil)
	forgotten(v.vnf)
}
