package tacker

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// vimOfTacker is a VIM in Tacker's database.
type vimOfTacker struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Type       string            `json:"type"`
	Tenant     string            `json:"tenant_id"`
	URL        string            `json:"auth_url"`
	Project    map[string]string `json:"vim_project"`
	Credential struct {
		Token string `json:"bearer_token"`
		CA    string `json:"ssl_ca_cert"`
	} `json:"auth_cred"`
	Extra map[string]map[string]string `json:"extra"`
	// Changes is how often Tacker has asked the cluster with a new credential.
	Changes int `json:"changes"`
}

// vims are all VIMs.
func (w *tackerMachine) vims() (list []vimOfTacker) {
	w.t.Helper()
	w.database(func(d *database) { list = d.VIMs })
	return list
}

// newMembers is a VNF whose request has cluster_members, and this vim_name unless it is empty.
func (w *tackerMachine) newMembers(vimName string) *vnf {
	w.t.Helper()
	v := w.newVNF()
	cluster := v.body["additionalParams"].(object)["k8s_cluster_installation_param"].(object)
	cluster["cluster_members"] = object{}
	delete(cluster, "vim_name")
	if vimName != "" {
		cluster["vim_name"] = vimName
	}
	return v
}

// grants makes the master say with what a VIM uses the cluster, once it runs.
func (v *vnf) grants(ca, token string) {
	v.masters[0].node.say(func(s *api.NodeStatus) {
		s.Cluster = &api.ClusterFacts{CACertificateHash: "sha256:" + strings.Repeat("1", 64), CACertificate: ca, Token: token}
	})
}

// told waits until the controller has what the master says.
func (v *vnf) told(token string) {
	v.t.Helper()
	loopback.Until(v.t, "the controller has the token "+token, func() bool {
		access, err := client.Read[api.ClusterAccess](v.API.GetClusterAccess(v.t.Context(), v.id))
		return err == nil && access.Token == token
	})
}

// withVIM brings a VNF into service whose cluster has this access, and returns the last hook.
func (v *vnf) withVIM(ca, token string) *running {
	v.t.Helper()
	v.instantiateStart()
	v.created()
	v.grants(ca, token)
	return v.call("instantiate_end", v.instantiateRequest(), nil)
}

// only asserts the only VIM, which has this access, and returns it.
func (v *vnf) only(name, ca, token string) vimOfTacker {
	v.t.Helper()
	all := v.vims()
	if len(all) != 1 {
		v.t.Fatalf("Tacker has the VIMs %+v, want one", all)
	}
	url := "https://" + v.masters[0].address + ":6443"
	if got := all[0]; got.Name != name || got.Type != "kubernetes" || got.Tenant != "tenant" || got.Project["name"] != "default" ||
		got.URL != url || got.Credential.CA != ca || got.Credential.Token != token {
		v.t.Errorf("Tacker has the VIM %+v, want %s at %s with %s and %s", got, name, url, ca, token)
	}
	return all[0]
}

// refresh is a modification of information, which changes nothing of the VNF.
func (v *vnf) refresh() *running {
	v.t.Helper()
	v.begin("MODIFY_INFO", nil)
	v.call("modify_information_start", nil, nil).succeeds()
	return v.call("modify_information_end", nil, nil)
}

// TestTheVIMOfACluster takes the VIM of a cluster through its life.
func TestTheVIMOfACluster(t *testing.T) {
	results.Begin(t, suite, "cluster-vim", "the VIM of a cluster is registered at instantiation, changed if token, CA or endpoint change, and deleted at termination")
	w := newTackerMachine(t)
	v := w.newMembers("")
	name := "kubernetes_vim_" + v.id
	end := v.withVIM("CA one", "token-one")
	end.succeeds()
	made := v.only(name, "CA one", "token-one")
	if !strings.Contains(end.stderr.String(), "VIM "+name+" of VNF instance "+v.id+" is registered") {
		t.Errorf("the conductor's log has\n%s", end.stderr.String())
	}
	v.call("instantiate_end", v.instantiateRequest(), nil).succeeds() // a retry
	v.refresh().succeeds()
	if again := v.only(name, "CA one", "token-one"); again.ID != made.ID || again.Changes != 1 {
		t.Errorf("without a change the VIM was %+v, is %+v", made, again)
	}

	for change, access := range map[string][2]string{"token": {"CA one", "token-two"}, "CA": {"CA two", "token-three"}} {
		v.grants(access[0], access[1])
		v.told(access[1])
		v.refresh().succeeds()
		if after := v.only(name, access[0], access[1]); after.ID != made.ID {
			t.Errorf("after a change of the %s the VIM %s has the id %s", change, made.ID, after.ID)
		}
	}
	if w.vims()[0].Changes != 3 {
		t.Errorf("after two changes the VIM is %+v", w.vims()[0])
	}

	v.begin("HEAL", nil)
	entire := healRequest()
	v.call("heal_start", entire, nil).succeeds()
	for _, s := range v.servers() {
		s.address = address()
	}
	v.healed()
	v.grants("CA three", "token-four")
	v.call("heal_end", entire, nil).succeeds()
	if after := v.only(name, "CA three", "token-four"); after.ID == made.ID {
		t.Error("at another endpoint the VIM is the same")
	}

	v.begin("TERMINATE", nil)
	v.call("terminate_start", object{}, nil).succeeds()
	v.deleted()
	v.call("terminate_end", object{}, nil).succeeds()
	if left := w.vims(); len(left) > 0 {
		t.Errorf("TERMINATE has left %+v", left)
	}
	if strings.Contains(string(w.Log())+end.stderr.String(), "token-") {
		t.Error("a log has the token")
	}
}

// TestAVIMThatCannotBeRegistered shows what Tacker shows then, and that VIMs of others stay.
func TestAVIMThatCannotBeRegistered(t *testing.T) {
	results.Begin(t, suite, "cluster-vim-refused", "a VIM that the cluster refuses, or whose name another VIM has, fails the hook by name and without the token; a VIM of others is not touched")
	w := newTackerMachine(t)
	foreign := vimOfTacker{ID: "foreign", Name: "taken", Type: "kubernetes", Tenant: "tenant", URL: "https://10.0.0.1:6443"}
	w.database(func(d *database) { d.VIMs = []vimOfTacker{foreign} })

	taken := w.newMembers("taken")
	taken.withVIM("CA", "token-one").raises("VIM taken of VNF instance "+taken.id, "https://"+taken.masters[0].address+":6443", "DuplicateEntity")
	taken.deleted()
	taken.call("terminate_end", nil, nil).succeeds() // Tacker's rollback
	if all := w.vims(); len(all) != 1 || all[0].ID != "foreign" || all[0].URL != foreign.URL {
		t.Errorf("Tacker has %+v, want the VIM of others alone", all)
	}

	refused := w.newMembers("mine")
	forged := vimOfTacker{ID: "forged", Name: "mine", Type: "kubernetes", Tenant: "another", URL: "https://" + refused.masters[0].address + ":6443",
		Extra: map[string]map[string]string{"nodehitch": {"vnfInstanceId": refused.id}}}
	w.database(func(d *database) { d.VIMs = append(d.VIMs, forged) })
	text := refused.withVIM("CA", "refused-token").raises("VIM mine of VNF instance "+refused.id, "VimUnauthorizedException: (401)", "[redacted]")
	if strings.Contains(text, "refused-token") || strings.Contains(text, "\n") {
		t.Errorf("the text is %q", text)
	}
	refused.grants("CA", "token-two")
	refused.told("token-two")
	refused.call("instantiate_end", refused.instantiateRequest(), nil).succeeds()
	if all := w.vims(); len(all) != 3 || all[2].Tenant != "tenant" || all[2].Credential.Token != "token-two" || all[1].Credential.Token != "" {
		t.Errorf("Tacker has %+v, want another VIM, in the project of the VNF", all)
	}
	refused.deleted()
	refused.call("terminate_end", nil, nil).succeeds() // Tacker's rollback has no other hook
	if all := w.vims(); len(all) != 2 || all[0].ID != "foreign" || all[1].ID != "forged" {
		t.Errorf("the rollback has left %+v, want the VIMs of others alone", all)
	}
}
