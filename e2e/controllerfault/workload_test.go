package controllerfault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-cmp/cmp"

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
	password = "s3cr3t"
)

type facts = map[string]fact

// workload makes each kind of write of the controller once.
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
	a, b  *machine
	alice *api.NewToken
	// completes wants the operation posted last to be completed, from now on.
	completes func()
}

func (w *work) files() {
	upload := func(content string) func() error {
		return func() error {
			return client.Done(w.c.API.PutFileWithBody(w.t.Context(), instance, script, nil, "application/octet-stream", strings.NewReader(content)))
		}
	}
	reads := func(content string) fact {
		return kept(func() int { return len(content) }, func() error {
			answer, err := w.c.API.GetFile(w.t.Context(), instance, script, nil)
			if err != nil || answer.StatusCode != http.StatusOK {
				return errors.Join(err, client.ProblemOf(answer))
			}
			defer answer.Body.Close()
			got, err := io.ReadAll(answer.Body)
			if err == nil && string(got) != content {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	w.step("upload a file", nil, upload("#!/bin/sh\n"), facts{"the file is there": reads("#!/bin/sh\n")})
	w.step("replace the file", []string{"the file is there"}, upload("#!/bin/sh\ntrue\n"), facts{"the new file is there": reads("#!/bin/sh\ntrue\n")})
}

func parameters(exportTo string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"k8s_cluster_installation_param": {"script_path": %q,
  "master_node": {"ssh_cp_name": "master_CP", "nic_cp_name": "master_CP", "cluster_cp_name": "master_CP", "password": %q},
  "worker_node": {"ssh_cp_name": "worker_CP", "nic_cp_name": "worker_CP"},
  "storage_server": {"ssh_cp_name": "storage_server_CP",
    "cinder_volume_setup_params": [{"volume_resource_id": "storage_server_volume", "mount_to": "/volume"}],
    "nfs_server_setup_params": [{"export_dir": "/volume/nfs/pv1", "export_to": %q}]}}}`, script, password, exportTo))
}

func (w *work) put(id, exportTo string) func() error { return w.putWith(id, parameters(exportTo)) }

func (w *work) putWith(id string, params json.RawMessage) func() error {
	return func() error {
		return client.Done(w.c.API.PutInstance(w.t.Context(), id, nil, api.InstanceSpec{AdditionalParams: params}))
	}
}

// there: the instance has these parameters, complete except for the secrets, which are
// redacted.
func (w *work) there(id string, params json.RawMessage) fact {
	return kept(func() int { return len(params) }, func() error {
		i, err := client.Read[api.Instance](w.c.API.GetInstance(w.t.Context(), id, nil))
		if err != nil {
			return err
		}
		var got, want any
		if err := errors.Join(json.Unmarshal(i.AdditionalParams, &got),
			json.Unmarshal(bytes.ReplaceAll(params, []byte(password), []byte("[redacted]")), &want)); err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("its parameters differ (-acknowledged +read):\n%s", diff)
		}
		return nil
	})
}

func (w *work) instances() {
	exports := func(id, to string) fact { return w.there(id, parameters(to)) }
	w.step("make the instance", nil, w.put(instance, "10.10.0.0/24"), facts{"the instance is there": exports(instance, "10.10.0.0/24")})
	w.step("give it other parameters", []string{"the instance is there"}, w.put(instance, "10.20.0.0/24"), facts{"the parameters are there": exports(instance, "10.20.0.0/24")})
	w.step("make another instance", nil, w.put(other, "10.10.0.0/24"), facts{"the other instance is there": exports(other, "10.10.0.0/24")})
	w.step("delete the other instance", []string{"the other instance is there"}, func() error {
		return gone(client.Done(w.c.API.DeleteInstance(w.t.Context(), other, nil)))
	}, facts{"the other instance is gone": kept(func() int { return len(other) }, func() error {
		err := client.Done(w.c.API.GetInstance(w.t.Context(), other, nil))
		if client.Status(err) != http.StatusNotFound {
			return unexpected(err)
		}
		return nil
	})})
}

// gone counts not-found as done: the answer to the request before was lost.
func gone(err error) error {
	if client.Status(err) == http.StatusNotFound {
		return nil
	}
	return err
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
	w.enroll(w.a)
	w.formats(w.a, &api.BlankCheck{BytesRead: 1 << 20, Samples: 9})
	w.converges(w.a)
	w.completes()
}

func (w *work) renews() {
	w.step("renew", nil, w.a.renew, nil)
	w.step("use the new certificate", nil, w.a.isAccepted, nil)
}

// heals: another server has the volume, with what is on it.
func (w *work) heals() {
	old := w.a.frozen()
	w.operate("heal", api.OperationRequest{Operation: api.Heal, Topology: w.topology(serverB)}, []string{serverA + " is accepted", reportOf(serverA)}, api.Completed)
	w.ledger["the replaced server is refused"] = refused(old.isRefused)
	w.b = w.machine(serverB)
	w.enroll(w.b)
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
	w.step("revoke", []string{serverB + " is accepted"}, func() error {
		return client.Done(w.c.API.RevokeNode(w.t.Context(), serverB))
	}, facts{"the revoked certificate is refused": refused(old.isRefused)})
	w.step("reenroll", nil, func() error { return client.Done(w.c.API.ReenrollNode(w.t.Context(), serverB)) }, nil)
	w.b = w.machine(serverB)
	w.enroll(w.b)
	w.converges(w.b)
}

func (w *work) ends() {
	old := w.b.frozen()
	w.operate("terminate", api.OperationRequest{Operation: api.Terminate}, []string{serverB + " is accepted"}, api.Completed)
	w.completes()
	w.ledger["every server is refused"] = refused(old.isRefused)
}
