package stacks

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// anotherID boots an impostor with the id of a server that has not booted yet and its
// user_data, which any program on a server can read.
func anotherID(w *world, r *results.Case) {
	v := w.newPlain(1)
	servers, err := w.hyper.servers(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	victim := servers[0]
	userData, err := w.cloud.UserData(w.T.Context(), victim.ID)
	if err != nil {
		w.T.Fatal(err)
	}
	impostor, err := w.Lab.Nspawn(w.T.Context(), lab.Spec{Name: "impostor", ServerID: victim.ID, UserData: userData, Metadata: true})
	if err != nil {
		w.T.Fatal(err)
	}
	// It has been told to read the nonce, and has not got it.
	w.Until("the impostor is asked for the nonce", func() error {
		out, err := impostor.Exec(w.T.Context(), "nodehitch-agent", "status")
		if err == nil && !strings.Contains(string(out), "metadata") {
			err = fmt.Errorf("its status is %s", out)
		}
		return err
	})
	w.noneEnrolled(r)
	if err := impostor.Destroy(); err != nil {
		w.T.Fatal(err)
	}
	v.powerOn()
	v.operate(api.Instantiate)
	v.attested(map[api.Role]int{api.RoleMaster: 1, api.RoleWorker: 1})
	w.someEnrolled()
}

func anotherProject(w *world, _ *results.Case) {
	mine := w.account
	other, err := w.cloud.NewAccount(w.T.Context(), "other")
	if err != nil {
		w.T.Fatal(err)
	}
	w.account = other
	theirs := w.newPlain(1)
	w.account = mine
	id := uuid.NewString()
	w.Must("apply", id, "-f", plainRequest, "--package", clusterPackage)
	_, err = w.Hitchctl(w.T.Context(), "operate", id, string(api.Instantiate), "--wait", "--stack-id", theirs.stack)
	if err == nil || !strings.Contains(err.Error(), theirs.stack) {
		w.T.Errorf("a stack of another project: %v; want to be told that there is none", err)
	}
	w.Must("apply", id, "-f", w.requestWith(other), "--package", clusterPackage)
	w.Must("operate", id, string(api.Instantiate), "--phase=START", "--stack-id", theirs.stack)
	found := &vnf{world: w, id: id}
	if n := len(found.nodes(api.RoleMaster)) + len(found.nodes(api.RoleWorker)); n != 2 {
		w.T.Errorf("with a credential of its project it has %d nodes, want 2", n)
	}
	if shown := w.Must("get", "instance", id, "-o", "json"); strings.Contains(shown, "accessInfo") {
		w.T.Error("the instance shows the credential")
	}
}

// requestWith is the request with the credential of an account in it, as Tacker's have.
func (w *world) requestWith(a *openstack.Account) (path string) {
	w.T.Helper()
	var request map[string]any
	w.readJSON(plainRequest, &request)
	request["vimConnectionInfo"] = []any{map[string]any{
		"id": uuid.NewString(), "vimId": uuid.NewString(), "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
		"interfaceInfo": map[string]any{"endpoint": openstack.AuthURL},
		"accessInfo": map[string]any{
			"username": a.Name, "password": a.Password(), "userDomain": "Default",
			"project": a.Project, "projectDomain": "Default", "region": "RegionOne",
		},
	}}
	return w.File("request.json", request)
}
