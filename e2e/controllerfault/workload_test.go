package controllerfault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	instance = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1177"
	other    = "b1bb0ce7-ebca-4fa7-95ed-4840d70a1178"
	serverA  = "00000001-0000-4000-8000-000000000001"
	serverB  = "00000001-0000-4000-8000-000000000002"
	volume   = "00000009-0000-4000-8000-000000000001"
	script   = "Scripts/install.sh"
	existing = "0e7a1e8a-0000-4000-8000-000000000001"
)

type facts = map[string]func() error

// workload does each thing once that the controller writes down.
func workload(r *rig) {
	r.t.Helper()
	w := &work{rig: r}
	w.tokens()
	w.files()
	w.instances()
	w.instantiates()
	w.renews()
	w.heals()
	w.adopts()
	w.reformats()
	w.revokes()
	w.ends()
}

type work struct {
	*rig
	a, b    *machine
	alice   *api.NewToken
	reports int
	// completes wants the operation posted last to be completed, from now on.
	completes func()
}

func (w *work) tokens() {
	w.step("create a token", nil, func() (err error) { w.alice, err = w.newToken("alice"); return err },
		facts{"alice's token opens": func() error { return w.token(w.alice, http.StatusOK) }})
	bob := new(api.NewToken)
	w.step("create another token", nil, func() (err error) { bob, err = w.newToken("bob"); return err },
		facts{"bob's token opens": func() error { return w.token(bob, http.StatusOK) }})
	w.step("revoke a token", []string{"bob's token opens"}, func() error {
		return gone(client.Done(w.c.API.RevokeToken(w.t.Context(), bob.Token.ID)))
	}, facts{"bob's token opens nothing": func() error { return w.token(bob, http.StatusUnauthorized) }})
}

// newToken makes a token of this name. One whose secret was lost on the way is
// revoked before, as an operator does who finds it in the list.
func (w *work) newToken(name string) (*api.NewToken, error) {
	list, err := client.Read[api.TokenList](w.c.API.ListTokens(w.t.Context()))
	if err != nil {
		return nil, err
	}
	for _, t := range list.Items {
		if t.Name == name {
			if err := client.Done(w.c.API.RevokeToken(w.t.Context(), t.ID)); err != nil {
				return nil, err
			}
		}
	}
	return client.Read[api.NewToken](w.c.API.CreateToken(w.t.Context(), api.TokenRequest{Name: name, Scope: api.ScopeOperator}))
}

func (w *work) token(token *api.NewToken, want int) error {
	trust := w.c.Trust()
	c, err := client.New(client.Options{BaseURL: w.c.URL, RootPEM: []byte(trust.RootCertificate), Token: token.Secret, Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	err = client.Done(c.GetInstance(w.t.Context(), "b1bb0ce7-ebca-4fa7-95ed-000000000000"))
	if status := client.Status(err); status == want || want == http.StatusOK && status == http.StatusNotFound {
		return nil
	}
	return unexpected(err)
}

func (w *work) files() {
	upload := func(content string) func() error {
		return func() error {
			return client.Done(w.c.API.PutFileWithBody(w.t.Context(), instance, script, nil, "application/octet-stream", strings.NewReader(content)))
		}
	}
	reads := func(content string) func() error {
		return func() error {
			answer, err := w.c.API.GetFile(w.t.Context(), instance, script, nil)
			if err != nil || answer.StatusCode != http.StatusOK {
				return errors.Join(err, client.ProblemOf(answer))
			}
			defer answer.Body.Close()
			if got, err := io.ReadAll(answer.Body); err != nil || string(got) != content {
				return fmt.Errorf("it is %q (%w)", got, err)
			}
			return nil
		}
	}
	w.step("upload a file", nil, upload("#!/bin/sh\n"), facts{"the file is there": reads("#!/bin/sh\n")})
	w.step("replace the file", []string{"the file is there"}, upload("#!/bin/sh\ntrue\n"), facts{"the new file is there": reads("#!/bin/sh\ntrue\n")})
}

func parameters(exportTo string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"k8s_cluster_installation_param": {"script_path": %q,
  "master_node": {"ssh_cp_name": "master_CP", "nic_cp_name": "master_CP", "cluster_cp_name": "master_CP", "password": "s3cr3t"},
  "worker_node": {"ssh_cp_name": "worker_CP", "nic_cp_name": "worker_CP"},
  "storage_server": {"ssh_cp_name": "storage_server_CP",
    "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
    "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": %q}]}}}`, script, exportTo))
}

func (w *work) put(id, exportTo string) func() error {
	return func() error {
		return client.Done(w.c.API.PutInstance(w.t.Context(), id, api.InstanceSpec{AdditionalParams: parameters(exportTo)}))
	}
}

func (w *work) instances() {
	exports := func(to string) func() error {
		return func() error {
			i, err := client.Read[api.Instance](w.c.API.GetInstance(w.t.Context(), instance))
			if err == nil && !strings.Contains(string(i.AdditionalParams), to) {
				err = fmt.Errorf("its parameters are %s", i.AdditionalParams)
			}
			return err
		}
	}
	w.step("make the instance", nil, w.put(instance, "10.10.0.0/24"), facts{"the instance is there": exports("10.10.0.0/24")})
	w.step("give it other parameters", []string{"the instance is there"}, w.put(instance, "10.20.0.0/24"), facts{"the parameters are there": exports("10.20.0.0/24")})
	there := func(want int) func() error {
		return func() error {
			err := client.Done(w.c.API.GetInstance(w.t.Context(), other))
			if got := client.Status(err); got != want {
				return unexpected(err)
			}
			return nil
		}
	}
	w.step("make another instance", nil, w.put(other, "10.10.0.0/24"), facts{"the other instance is there": there(0)})
	w.step("delete the other instance", []string{"the other instance is there"}, func() error {
		return gone(client.Done(w.c.API.DeleteInstance(w.t.Context(), other)))
	}, facts{"the other instance is gone": there(http.StatusNotFound)})
}

// gone takes it for done that there is no such thing any more: the answer to the
// request before was lost.
func gone(err error) error {
	if client.Status(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// operate posts an operation, each time with the same key.
func (w *work) operate(key string, o api.OperationRequest, over []string, want api.OperationState) {
	o.IdempotencyKey, o.Partial = key, true
	id := ""
	is := func(states ...api.OperationState) func() error {
		return func() error {
			op, err := client.Read[api.Operation](w.c.API.GetOperation(w.t.Context(), instance, id, nil))
			if err != nil {
				return err
			}
			for _, state := range states {
				if op.State == state && op.IdempotencyKey == key {
					return nil
				}
			}
			return fmt.Errorf("it is %s (%s)", op.State, typeOf(op.Error))
		}
	}
	fact := fmt.Sprintf("operation %s is on record", key)
	w.completes = func() {
		w.step("see that "+key+" is completed", []string{fact}, is(api.Completed), facts{key + " is completed": is(api.Completed)})
	}
	w.step("post the operation "+key, over, func() error {
		if want == api.Failed {
			// The same request would begin anew once it has failed, so who has lost the
			// answer looks first.
			list, err := client.Read[api.OperationList](w.c.API.ListInstanceOperations(w.t.Context(), instance))
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(list.Items, func(o api.Operation) bool { return o.IdempotencyKey == key }); at >= 0 {
				id = list.Items[at].ID
				return nil
			}
		}
		op, err := client.Read[api.Operation](w.c.API.PostOperation(w.t.Context(), instance, o))
		if err == nil {
			id = op.ID
		}
		return err
	}, facts{fact: is(api.Processing, want)})
	if want == api.Failed {
		w.step("wait for the deadline of "+key, []string{fact}, func() error {
			for deadline := time.Now().Add(10 * time.Second); ; {
				err := is(want)()
				if err == nil || client.Status(err) != 0 || time.Now().After(deadline) || !strings.HasPrefix(err.Error(), "it is ") {
					return err
				}
				time.Sleep(50 * time.Millisecond) // for the controller's own clock
			}
		}, facts{fact: is(want)})
	}
}

func (w *work) enrol(m *machine) {
	w.step("enrol "+m.server, nil, func() error {
		token, err := client.Read[api.JoinToken](w.c.API.GetJoinToken(w.t.Context(), instance))
		if err != nil {
			return err
		}
		return m.enrol(token.Token)
	}, facts{m.server + " is let in": m.opens})
}

// converges: the machine reports that it is ready for its document.
func (w *work) converges(m *machine) {
	w.reports++
	var digest string
	w.step("report of "+m.server, nil, func() (err error) { digest, err = m.report(); return err }, facts{
		fmt.Sprintf("report %d is there", w.reports): func() error {
			n, err := client.Read[api.Node](w.c.API.GetNode(w.t.Context(), m.server))
			if err == nil && (n.Status == nil || n.Status.AppliedDigest == "" || digest == "") {
				err = fmt.Errorf("its status is %+v", n.Status)
			}
			return err
		}})
}

func (w *work) permit(states ...api.PermitState) func() error {
	return func() error {
		v, err := client.Read[api.Volume](w.c.API.GetVolume(w.t.Context(), volume))
		if err != nil {
			return err
		}
		for _, state := range states {
			if v.PermitState == state {
				return nil
			}
		}
		return fmt.Errorf("its permit is %s", v.PermitState)
	}
}

// formats is the whole exchange.
func (w *work) formats(m *machine, proof *api.BlankProof, over ...string) {
	const granted, started, formatted = "the permit is granted", "the format is started", "the volume is formatted"
	w.step("format wanted", over, func() error { return m.format(api.FormatWanted, proof) }, facts{granted: w.permit(api.PermitGranted)})
	w.step("format started", []string{granted}, func() error { return m.format(api.FormatStarted, nil) }, facts{started: w.permit(api.PermitStarted)})
	w.step("formatted", []string{started}, func() error { return m.format(api.FormatFormatted, nil) }, facts{formatted: w.permit(api.PermitFormatted)})
}

func (w *work) topology(server string) *api.Topology {
	return loopback.StorageTopology(server, volume, 1<<30)
}

func (w *work) instantiates() {
	w.operate("instantiate-start", api.OperationRequest{Operation: api.Instantiate, Phase: api.PhaseStart}, nil, api.Completed)
	if results.Full() { // it takes the time of its deadline
		w.operate("instantiate-late", api.OperationRequest{Operation: api.Instantiate, Topology: w.topology(serverA), DeadlineSeconds: 1}, nil, api.Failed)
	}
	w.operate("instantiate", api.OperationRequest{Operation: api.Instantiate, Topology: w.topology(serverA)}, nil, api.Completed)
	w.a = w.machine(serverA)
	w.enrol(w.a)
	w.formats(w.a, &api.BlankProof{BytesRead: 1 << 20, Samples: 9})
	w.converges(w.a)
	w.completes()
}

func (w *work) renews() {
	w.step("renew", nil, w.a.renew, nil)
	w.step("use the new certificate", nil, w.a.opens, nil)
}

// heals: another server has the volume, with what is on it.
func (w *work) heals() {
	old := w.a.frozen()
	w.operate("heal", api.OperationRequest{Operation: api.Heal, Topology: w.topology(serverB)}, []string{serverA + " is let in", "report 1 is there"}, api.Completed)
	w.ledger["the replaced server is not let in"] = old.opensNothing
	w.b = w.machine(serverB)
	w.enrol(w.b)
	w.converges(w.b)
	w.completes()
}

func (w *work) adopts() {
	w.step("adopt", []string{"the volume is formatted"}, func() error {
		return client.Done(w.c.API.AdoptVolume(w.t.Context(), volume, api.AdoptRequest{FilesystemUUID: existing}))
	}, facts{"the volume is adopted": w.permit(api.PermitAdopted)})
	w.converges(w.b)
}

func (w *work) reformats() {
	w.step("reformat", []string{"the volume is adopted"}, func() error {
		return client.Done(w.c.API.ReformatVolume(w.t.Context(), volume, api.ReformatRequest{ConfirmVolumeID: volume}))
	}, facts{"the reformat is allowed": w.permit(api.PermitNone)})
	w.formats(w.b, nil, "the reformat is allowed")
	w.converges(w.b)
}

func (w *work) revokes() {
	old := w.b.frozen()
	w.step("revoke", []string{serverB + " is let in"}, func() error {
		return client.Done(w.c.API.RevokeNode(w.t.Context(), serverB))
	}, facts{"the revoked certificate is not let in": old.opensNothing})
	w.step("reenrol", nil, func() error { return client.Done(w.c.API.ReenrolNode(w.t.Context(), serverB)) }, nil)
	w.b = w.machine(serverB)
	w.enrol(w.b)
	w.converges(w.b)
}

func (w *work) ends() {
	old := w.b.frozen()
	w.operate("terminate", api.OperationRequest{Operation: api.Terminate}, []string{serverB + " is let in"}, api.Completed)
	w.completes()
	w.ledger["no server is let in"] = old.opensNothing
}
