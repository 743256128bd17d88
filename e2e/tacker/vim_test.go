package tacker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestTheVIMsCredentials: the controller has no credential of its own, and observes the stack
// with what the driver sends, if tacker.conf says that it does.
func TestTheVIMsCredentials(t *testing.T) {
	for _, name := range []string{"v1", "v2"} {
		t.Run(name, func(t *testing.T) {
			results.Begin(t, suite, "vim-credentials/"+name, "with send_vim_connection_info the controller observes the stack by the VIM's credentials, also after a change of the package; without it has none")
			w := openTackerMachine(t, map[string]string{"openstack": "{vimConnectionInfo: true, timeoutSeconds: 5}"})
			v := w.newVNF()
			hook := func(name string) string { return v.call(name, v.instantiateRequest(), nil).problem() }
			if name == "v2" {
				script := v.asV2()
				hook = func(name string) string { return script.exec(name, v.body, nil).problem() }
			}
			operation := func(settings map[string]string) (start, end string) {
				w.configure(settings)
				v.begin("INSTANTIATE", v.body)
				start = hook("instantiate_start")
				v.created()
				return start, hook("instantiate_end")
			}
			start, end := operation(map[string]string{"deadline": "5"})
			t.Logf("without: %q, %q", start, end)
			if start != "" || !strings.Contains(end, "is missing and none is known") {
				t.Errorf("without credentials instantiate_start says %q, instantiate_end %q", start, end)
			}
			if start, end := operation(map[string]string{"send_vim_connection_info": "true"}); start+end != "" {
				t.Errorf("with credentials instantiate_start says %q, instantiate_end %q", start, end)
			}
			if v.script != nil { // the API that can change the package
				request := object{"vnfdId": v.vnfd(), "additionalParams": v.body["additionalParams"]}
				v.script.operation("change_current_package", request, func() {
					v.workers = append(v.workers, v.newWorker())
					v.updated()
				})
				if added := v.workers[len(v.workers)-1].id; !slices.Contains(v.instance().Nodes, added) {
					t.Errorf("after a change of the package the instance has the nodes %v, and not the new worker %s", v.instance().Nodes, added)
				}
			}
			shown, err := json.Marshal(v.instance())
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(shown)+string(w.Log()), openstacktest.Password) {
				t.Error("the instance or the controller's log has the VIM's password")
			}
		})
	}
}
