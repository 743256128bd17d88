package stacks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/openstack"
	"github.com/nodehitch/nodehitch/packaging/python"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

type object = map[string]any

// standin is what stands in for Tacker, and the programs that call what is ours as Tacker does.
const standin = "../tacker/testdata"

// hookDeadline is enough for every hook on a busy machine.
const hookDeadline = 20 * time.Minute

// tacker is the machine of Tacker, with python3-nodehitch-tacker and a token of its own.
type tacker struct {
	*world
	dir   string
	trust *api.Trust
}

func (w *world) newTacker() *tacker {
	w.T.Helper()
	m := &tacker{world: w, dir: w.T.TempDir()}
	var created api.NewToken
	err := w.JSON(w.T.Context(), &created, "create", "token", "tacker", "--scope", "tacker")
	if err != nil {
		w.T.Fatal(err)
	}
	controller, err := w.API()
	if err != nil {
		w.T.Fatal(err)
	}
	if m.trust, err = client.Read[api.Trust](controller.GetTrust(w.T.Context())); err != nil {
		w.T.Fatal(err)
	}
	err = errors.Join(python.Write("../..", m.path("installed"), "1.2.3"),
		os.WriteFile(m.path("token"), []byte(created.Secret+"\n"), 0o600),
		os.WriteFile(m.path("root.pem"), []byte(m.trust.RootCertificate), 0o600),
		os.WriteFile(m.path("state.json"), []byte(`{"occurrences": []}`), 0o600))
	if err != nil {
		w.T.Fatal(err)
	}
	m.configure(hookDeadline)
	return m
}

func (m *tacker) path(name string) string { return filepath.Join(m.dir, name) }

// configure writes tacker.conf. Each hook reads it.
func (m *tacker) configure(deadline time.Duration) {
	m.T.Helper()
	conf := fmt.Sprintf("[nodehitch]\nurls = %s\nroot_certificate = %s\npin = %s\ntoken_file = %s\nvnf_packages = %s\ndeadline = %.0f\n",
		m.URL, m.path("root.pem"), m.trust.Pin, m.path("token"), m.path("packages"), deadline.Seconds())
	if err := os.WriteFile(m.path("tacker.conf"), []byte(conf), 0o600); err != nil {
		m.T.Fatal(err)
	}
}

// python runs a program of the stand-in, from where the controller is reached as from a server.
func (m *tacker) python(answer, input any, program string, args ...string) {
	m.T.Helper()
	said, err := json.Marshal(input)
	if err != nil {
		m.T.Fatal(err)
	}
	folder, err := filepath.Abs(standin)
	if err != nil {
		m.T.Fatal(err)
	}
	cmd := m.Lab.Command(m.T.Context(), append([]string{"/usr/bin/python3", filepath.Join(folder, program)}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+m.path("installed")+":"+filepath.Join(folder, "standin"),
		"NODEHITCH_TACKER_CONF="+m.path("tacker.conf"), "TACKER_STANDIN_STATE="+m.path("state.json"), "TACKER_STANDIN_PACKAGES="+m.path("packages"))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(said), &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		m.T.Fatalf("%s: %v\n%s%s", program, err, out, stderr.Bytes())
	}
	if stderr.Len() > 0 {
		m.T.Logf("%s: %s", program, stderr.Bytes())
	}
}

// tackerVNF is a VNF instance as Tacker has it. Its stack is the one of vnf.
type tackerVNF struct {
	*vnf
	tacker *tacker
	// vnfd is the id of its VNFD.
	vnfd string
	// parameters are the additionalParams of the request.
	parameters object
	links      []object
}

// ownUserData is a script that keeps itself, with what may be altered on its way to a server.
const ownUserData = "#!/bin/sh\n# \"both\" 'quotes', a backslash \\, no line break \\n, zwölf €\ncp \"$0\" /var/lib/own\n"

// ownUserDataOf finds the parameters of a base HOT for it.
var ownUserDataOf = regexp.MustCompile(`(?m)^  (\w+_user_data):$`)

// onboard builds a package and gives it to Tacker, for a VNF with this request. files is the
// folder with what the request names.
func (m *tacker) onboard(version hot.API, template, request, files string) *tackerVNF {
	m.T.Helper()
	v := &tackerVNF{vnf: &vnf{world: m.world, id: uuid.NewString(), account: m.account}, tacker: m}
	var body struct {
		AdditionalParams object
		ExtVirtualLinks  []object
	}
	m.readJSON(request, &body)
	v.parameters, v.links = body.AdditionalParams, body.ExtVirtualLinks
	for _, link := range v.links {
		link["resourceId"] = m.network
	}
	if strings.HasSuffix(template, "-storage") {
		v.parameters["storage_server_volume_size"] = 1
	}
	own := ownUserData
	if version == hot.V1 { // it alters text
		var err error
		if own, err = v.account.SoftwareConfig(m.T.Context(), own); err != nil {
			m.T.Fatal(err)
		}
	}
	top, _ := hot.BaseHOT(template, version)
	for _, parameter := range ownUserDataOf.FindAllStringSubmatch(top, -1) {
		v.parameters[parameter[1]] = own
	}
	v.vnfd = m.packageFrom(version, template, files)
	return v
}

// packageFrom builds a package and gives it to Tacker, which has one of a VNFD once. It returns the VNFD's id.
func (m *tacker) packageFrom(version hot.API, template, files string) (vnfd string) {
	m.T.Helper()
	folder := m.T.TempDir()
	csar, unpacked := filepath.Join(folder, "package.csar"), filepath.Join(folder, "unpacked")
	m.Must("package", "build", "--api", string(version), "--template", template, "--files", files,
		"--image", openstack.Image, "--flavor", openstack.Flavor, "--file", csar)
	if err := unpack(csar, unpacked); err != nil {
		m.T.Fatal(err)
	}
	vnfd = m.vnfdOf(unpacked)
	packages := m.path("packages")
	if _, err := os.Stat(filepath.Join(packages, vnfd)); err == nil {
		return vnfd
	}
	if err := errors.Join(os.MkdirAll(packages, 0o755), os.Rename(unpacked, filepath.Join(packages, vnfd))); err != nil {
		m.T.Fatal(err)
	}
	return vnfd
}

// folder is the onboarded package, where Tacker keeps it.
func (v *tackerVNF) folder() string { return filepath.Join(v.tacker.path("packages"), v.vnfd) }

// vnfdOf is the id of the VNFD in a folder.
func (m *tacker) vnfdOf(folder string) string {
	m.T.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "Definitions/nodehitch_top.vnfd.yaml"))
	if err != nil {
		m.T.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "descriptor_id: ")
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

// stackServer is a server of the stack. member is the nested stack of the Heat group that it is
// in, the zero value for one at the top.
type stackServer struct {
	openstack.Resource
	member openstack.Resource
}

// resources are those of the stack and of the stacks nested in it.
func (v *tackerVNF) resources() []openstack.Resource {
	v.T.Helper()
	all, err := v.account.Resources(v.T.Context(), v.stack)
	if err != nil {
		v.T.Fatal(err)
	}
	return all
}

// servers are those of the stack, as Heat has them now.
func (v *tackerVNF) servers() (list []stackServer) {
	v.T.Helper()
	if v.stack == "" {
		return nil
	}
	all := v.resources()
	for _, r := range all {
		if r.Type != "OS::Nova::Server" {
			continue
		}
		s := stackServer{Resource: r}
		if i := slices.IndexFunc(all, func(m openstack.Resource) bool { return m.Name == r.Parent }); i >= 0 {
			s.member = all[i]
		}
		list = append(list, s)
	}
	// As Tacker orders them.
	slices.SortFunc(list, func(a, b stackServer) int { return strings.Compare(b.Created, a.Created) })
	return list
}

// workers are the servers of the group of workers, the newest first.
func (v *tackerVNF) workers() []stackServer { return v.named("workerNode") }

// named are the servers of this VDU, the newest first.
func (v *tackerVNF) named(vdu string) []stackServer {
	v.T.Helper()
	return slices.DeleteFunc(v.servers(), func(s stackServer) bool { return s.Name != vdu })
}

// patch makes Heat change these parameters of the stack, and waits until it has. Resources that
// are unhealthy are replaced.
func (v *tackerVNF) patch(parameters object) {
	v.T.Helper()
	if parameters == nil {
		parameters = object{}
	}
	v.change(v.account.PatchStack, openstack.Template{Parameters: parameters})
}

// change makes Heat update the stack in one of its ways, and waits until it has.
func (v *tackerVNF) change(way func(context.Context, string, openstack.Template) error, t openstack.Template) {
	v.T.Helper()
	if err := way(v.T.Context(), v.stack, t); err != nil {
		v.T.Fatal(err)
	}
	v.finished("UPDATE_COMPLETE")
}

// markUnhealthy makes the next update replace the servers.
func (v *tackerVNF) markUnhealthy(servers []stackServer) {
	v.T.Helper()
	for _, s := range servers {
		stack := v.stack
		if s.member.PhysicalID != "" {
			stack = s.member.PhysicalID
		}
		if err := v.account.MarkUnhealthy(v.T.Context(), stack, s.Name); err != nil {
			v.T.Fatal(err)
		}
	}
}

// attested also asserts that each server has what its user_data is made of, byte for byte.
func (v *tackerVNF) attested(count map[api.Role]int) {
	v.T.Helper()
	v.vnf.attested(count)
	for _, s := range v.servers() {
		m := v.hyper.machine(s.PhysicalID)
		own, err := m.Pull(v.T.Context(), "/var/lib/own")
		if err != nil || string(own) != ownUserData {
			v.T.Errorf("%s has run %q (%v), want %q", m.Name(), own, err, ownUserData)
		}
		var configuration struct{ RootCertificate string }
		text, err := m.Pull(v.T.Context(), "/etc/nodehitch/agent.yaml")
		if err == nil {
			err = yaml.Unmarshal(text, &configuration)
		}
		if err != nil || configuration.RootCertificate != v.tacker.trust.RootCertificate {
			v.T.Errorf("%s trusts %q (%v), want %q", m.Name(), configuration.RootCertificate, err, v.tacker.trust.RootCertificate)
		}
	}
}

// gone asserts that the controller has the instance no more.
func (v *tackerVNF) gone() {
	v.T.Helper()
	if out, err := v.Hitchctl(v.T.Context(), "get", "instance", v.id); err == nil {
		v.T.Errorf("the controller still has the instance:\n%s", out)
	}
}
