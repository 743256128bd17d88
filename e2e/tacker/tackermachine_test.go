package tacker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
	"github.com/nodehitch/nodehitch/packaging/python"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/durable"
)

const suite = "tacker"

// tackerMachine is a controller with a cloud, and a machine on which the integration is installed.
type tackerMachine struct {
	*loopback.Controller
	// t is the test that goes on now; the machine lives as long as whole does.
	t, whole *testing.T
	cloud    *openstacktest.Cloud
	// dir has what the machine of Tacker has: tacker.conf, the installed files, the packages,
	// and the state that stands for Tacker's database.
	dir         string
	interpreter []string
	mu          sync.Mutex // of the state
}

func newTackerMachine(t *testing.T) *tackerMachine {
	t.Helper()
	return openTackerMachine(t, nil)
}

// openTackerMachine is newTackerMachine with other settings of the controller.
func openTackerMachine(t *testing.T, settings map[string]string) *tackerMachine {
	t.Helper()
	w := &tackerMachine{t: t, whole: t, cloud: openstacktest.Start(t), dir: t.TempDir()}
	all := map[string]string{"openstack": fmt.Sprintf("{cloudsFile: %s, cloud: fake, timeoutSeconds: 5}", w.cloud.CloudsFile(t))}
	maps.Copy(all, settings)
	w.Controller = loopback.Open(t, loopback.Options{Settings: all})
	token, err := w.Hitchctl("create", "token", "tacker", "--scope", "tacker", "-o", "json")
	var created api.NewToken
	if err == nil {
		err = json.Unmarshal(token, &created)
	}
	trust := w.Trust()
	err = errors.Join(err, python.Write("../..", filepath.Join(w.dir, "installed"), "1.2.3"),
		os.WriteFile(w.path("token"), []byte(created.Secret+"\n"), 0o600),
		os.WriteFile(w.path("root.pem"), []byte(trust.RootCertificate), 0o600),
		os.WriteFile(w.path("state.json"), []byte(`{"occurrences": []}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	w.interpreter = interpreter(t, w.dir)
	w.configure(nil)
	return w
}

func (w *tackerMachine) path(name string) string { return filepath.Join(w.dir, name) }

// configure writes tacker.conf, with other values or further lines.
func (w *tackerMachine) configure(other map[string]string) {
	w.t.Helper()
	values := map[string]string{"urls": w.URL, "root_certificate": w.path("root.pem"), "pin": w.Trust().Pin, "token_file": w.path("token"), "deadline": "120"}
	for key, value := range other {
		values[key] = value
	}
	var text strings.Builder
	text.WriteString("[nodehitch]\n")
	for key, value := range values {
		fmt.Fprintf(&text, "%s = %s\n", key, value)
	}
	if err := os.WriteFile(w.path("tacker.conf"), []byte(text.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// python is a program of Python on Tacker's machine.
func (w *tackerMachine) python(argv ...string) *exec.Cmd {
	standin, err := filepath.Abs("testdata/standin")
	if err != nil {
		w.t.Fatal(err)
	}
	argv = append(slices.Clone(w.interpreter), argv...)
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+w.path("installed")+":"+standin,
		"NODEHITCH_TACKER_CONF="+w.path("tacker.conf"), "TACKER_STANDIN_STATE="+w.path("state.json"), "TACKER_STANDIN_PACKAGES="+w.path("packages"))
	return cmd
}

// object is one of JSON.
type object = map[string]any

// outcome is how a hook has ended, and what Tacker's objects have then.
type outcome struct {
	Error *struct{ Class, Message string }
	// Request and Instantiated are the additional_params of the request and of the
	// instantiated VNF.
	Request, Instantiated object
	// Beats is how often another greenlet of the process ran meanwhile.
	Beats int
	// Python is its version.
	Python string
}

// running is a hook that has begun.
type running struct {
	t           *testing.T
	v           *vnf
	hook        string
	process     *process.Process
	out, stderr *output
}

// output is read while it is written.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// call begins a hook.
func (v *vnf) call(hook string, request object, keywords object) *running {
	v.t.Helper()
	name := map[string]string{"change_external_connectivity": "change_ext_conn_request", "modify_information": "modify_vnf_request"}
	operation := hook[:strings.LastIndex(hook, "_")]
	requestName := name[operation]
	if requestName == "" {
		requestName = operation + "_vnf_request"
	}
	if keywords == nil {
		keywords = object{}
	}
	var given any // nil as of a rollback
	if request != nil {
		given = request
	}
	said, err := json.Marshal(object{"hook": hook, "vnf_instance": v.object(), "request_name": requestName, "request": given, "keywords": keywords})
	if err != nil {
		v.t.Fatal(err)
	}
	return v.start(hook, v.python("testdata/hook.py"), said)
}

func (v *vnf) start(hook string, cmd *exec.Cmd, input []byte) *running {
	v.t.Helper()
	v.calls++
	r := &running{t: v.t, v: v, hook: hook, out: &output{}, stderr: &output{}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(input)), r.out, r.stderr
	var err error
	if r.process, err = process.Start(cmd); err != nil {
		v.t.Fatal(err)
	}
	return r
}

// outcome waits for the end of the hook.
func (r *running) outcome() (o outcome) {
	r.t.Helper()
	if err := r.process.How(); err != nil {
		r.t.Fatalf("%s: %v\n%s", r.hook, err, r.stderr.String())
	}
	if err := json.Unmarshal([]byte(r.out.String()), &o); err != nil {
		r.t.Fatalf("%s: %v\n%s", r.hook, err, r.out.String())
	}
	if o.Error == nil && strings.HasSuffix(r.hook, "_end") && r.v.kept.after != "" {
		r.v.keep(r.v.kept.after)
		r.v.kept.after = ""
	}
	switch { // what Tacker goes on with
	case o.Error != nil:
	case r.hook == "instantiate_start":
		r.v.kept.additional = o.Request
	case o.Instantiated != nil:
		r.v.kept.additional = o.Instantiated
	}
	return o
}

// problem waits for the end of the hook, and is empty if it has raised nothing.
func (r *running) problem() string {
	r.t.Helper()
	if o := r.outcome(); o.Error != nil {
		return o.Error.Message
	}
	return ""
}

// succeeds waits for the end of the hook, which has to raise nothing.
func (r *running) succeeds() outcome {
	r.t.Helper()
	o := r.outcome()
	if o.Error != nil {
		r.t.Fatalf("%s raised %+v", r.hook, *o.Error)
	}
	return o
}

// raises waits for the end of the hook, which has to raise Tacker's exception with all of
// these texts, and returns its whole text.
func (r *running) raises(texts ...string) string {
	r.t.Helper()
	o := r.outcome()
	if o.Error == nil {
		r.t.Fatalf("%s raised nothing; want %q", r.hook, texts)
	}
	r.t.Logf("%s raised %s", r.hook, o.Error.Message)
	if o.Error.Class != "MgmtDriverOtherError" {
		r.t.Errorf("%s raised a %s", r.hook, o.Error.Class)
	}
	for _, text := range texts {
		if !strings.Contains(o.Error.Message, text) {
			r.t.Errorf("%s raised %q; want %q", r.hook, o.Error.Message, text)
		}
	}
	return o.Error.Message
}

// occurrence is one of Tacker's LCM operation occurrences.
type occurrence struct {
	ID         string `json:"id"`
	InstanceID string `json:"vnf_instance_id"`
	State      string `json:"operation_state"`
	Operation  string `json:"operation"`
	Params     string `json:"operation_params"`
	Entered    int    `json:"state_entered_time"` // only compared
}

// occurrences changes Tacker's database.
func (w *tackerMachine) occurrences(change func([]occurrence) []occurrence) {
	w.t.Helper()
	w.database(func(d *database) { d.Occurrences = change(d.Occurrences) })
}

// database is what stands for Tacker's.
type database struct {
	Occurrences []occurrence  `json:"occurrences"`
	VIMs        []vimOfTacker `json:"vims,omitempty"`
	Attributes  []attribute   `json:"vnf_attributes,omitempty"`
	// Projects are those of packages that are not the VNFs'.
	Projects map[string]string `json:"projects,omitempty"`
}

// attribute is one that the v1 API keeps of a VNF.
type attribute struct {
	VNF   string `json:"vnf_id"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (w *tackerMachine) database(change func(*database)) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var state database
	text, err := os.ReadFile(w.path("state.json"))
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err == nil {
		change(&state)
		if text, err = json.Marshal(state); err == nil {
			err = durable.Write(w.path("state.json"), text, 0o600) // a hook of another VNF may read it at this moment
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// text is the parameters of the stack, as Tacker's v1 API keeps them; empty before it does.
func (v *vnf) text() (text string) {
	v.t.Helper()
	v.database(func(d *database) {
		for _, each := range d.Attributes {
			if each.VNF == v.id {
				text = each.Value
			}
		}
	})
	return text
}

// keep changes that.
func (v *vnf) keep(text string) {
	v.t.Helper()
	v.database(func(d *database) {
		d.Attributes = slices.DeleteFunc(d.Attributes, func(each attribute) bool { return each.VNF == v.id })
		d.Attributes = append(d.Attributes, attribute{VNF: v.id, Key: "stack_param", Value: text})
	})
}

// begin makes Tacker begin an operation of the VNF; those before are over. What it keeps of the stack's parameters is
// read now, before any hook.
func (v *vnf) begin(operation string, body object) {
	v.t.Helper()
	v.kept.before = v.text()
	params, err := json.Marshal(body)
	if err != nil {
		v.t.Fatal(err)
	}
	v.occurrences(func(list []occurrence) []occurrence {
		for i := range list {
			if list[i].InstanceID == v.id {
				list[i].State = "COMPLETED"
			}
		}
		return append(list, occurrence{ID: uuid.NewString(), InstanceID: v.id, State: "PROCESSING", Operation: operation, Params: string(params), Entered: len(list)})
	})
}

// retried is the body with which Tacker would retry the operation in progress.
func (v *vnf) retried() (body object) {
	v.t.Helper()
	v.occurrences(func(list []occurrence) []occurrence {
		for _, each := range list {
			if each.InstanceID == v.id && each.State == "PROCESSING" {
				if err := json.Unmarshal([]byte(each.Params), &body); err != nil {
					v.t.Fatal(err)
				}
			}
		}
		return list
	})
	return body
}
