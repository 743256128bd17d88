package tacker

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// kept is what is there of a VNF between two hooks.
type kept struct {
	// additional are the additional_params that Tacker keeps with the instance of the v1 API.
	additional object
	// before is how Tacker's v1 API has kept the parameters of the stack when the operation began, after how it does
	// once the operation's last hook has succeeded.
	before, after string
	// heat is the stack as Heat has it, images are Glance's names by ids.
	heat   heatStack
	images map[string]string
	// status is the stack's.
	status string
	// given are the parameters with which the stack was made first, without nfv.
	given object
}

type heatStack struct {
	Template   object            `json:"template"`
	Files      map[string]object `json:"files"`
	Parameters object            `json:"parameters"`
}

// awkward is what an interface that takes text has to keep: line breaks, both quotes, backslashes, letters that are not ASCII.
const awkward = "#cloud-config\n# it's \"quoted\": C:\\new, \\\\, \\n and zwölf €\n\nruncmd: [\"echo 'ä'\"]\n"

// ownUserData are the parameters for the user_data of one's own.
var ownUserData = []string{"master_user_data", "worker_user_data", "storage_server_user_data"}

// onboard builds a package of a template and gives it to Tacker, in the place of the one that the VNF has.
func (v *vnf) onboard(version, template string, options ...string) {
	v.t.Helper()
	folder, csar := filepath.Join(v.path("packages"), v.packageID), filepath.Join(v.t.TempDir(), "package.csar")
	_, err := v.Hitchctl(append([]string{"package", "build", "--api", version, "--template", template, "--files", v.files,
		"--image", "debian", "--flavor", "m1.small", "--file", csar}, options...)...)
	if err != nil {
		v.t.Fatal(err)
	}
	archive, err := zip.OpenReader(csar)
	if err == nil {
		err = errors.Join(os.RemoveAll(folder), os.CopyFS(folder, archive), archive.Close())
	}
	if err != nil {
		v.t.Fatal(err)
	}
	vnfd, err := os.ReadFile(filepath.Join(folder, "Definitions/nodehitch_top.vnfd.yaml"))
	named := regexp.MustCompile(`descriptor_id: (\S+)`).FindSubmatch(vnfd)
	if err != nil || named == nil {
		v.t.Fatalf("the VNFD has no id (%v):\n%s", err, vnfd)
	}
	v.vnfdID = string(named[1])
}

// before makes the package one from before the list of lines: what nests the agent, and takes the root certificate as one text.
func (v *vnf) before() {
	v.t.Helper()
	base := filepath.Join(v.folder(), "BaseHOT")
	if err := errors.Join(os.RemoveAll(base), os.CopyFS(base, os.DirFS("../stacks/testdata/oldpackage"))); err != nil {
		v.t.Fatal(err)
	}
}

// program runs one that does what Tacker does between hooks.
func (v *vnf) program(answer any, said object, argv ...string) (problem string) {
	v.t.Helper()
	cmd := v.python(argv...)
	cmd.Stdin = bytes.NewReader(asJSON(v.t, said))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return lines[len(lines)-1]
	}
	if err := json.Unmarshal(out, answer); err != nil {
		v.t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

// toHeat is what Tacker's v1 API does between the hooks of an operation. It returns what Tacker or Heat says against it.
func (v *vnf) toHeat(operation string, more object) (problem string) {
	v.t.Helper()
	k := &v.kept
	said := object{"operation": operation, "flavour": "simple", "before": k.before, "kept": v.text(), "additional_params": k.additional, "ext_virtual_links": v.body["extVirtualLinks"],
		"instance": v.id, "stack": k.heat, "images": k.images}
	for name, value := range more {
		said[name] = value
	}
	var answer struct {
		Stack   heatStack
		Images  map[string]string
		Kept    string
		Refused *string
	}
	if problem := v.program(&answer, said, "testdata/stack.py", v.folder()); problem != "" {
		return problem
	}
	k.images = answer.Images
	if answer.Refused != nil {
		return *answer.Refused
	}
	k.heat, k.after = answer.Stack, answer.Kept
	return ""
}

// makes is toHeat, which has to succeed.
func (v *vnf) makes(operation string, more object) {
	v.t.Helper()
	if problem := v.toHeat(operation, more); problem != "" {
		v.t.Fatalf("%s: Heat or the UserData class says %s", operation, problem)
	}
	v.unharmed(operation)
}

// unharmed asserts that the stack's parameters, but for nfv and sizes, are what was given, and the root certificate the controller's.
func (v *vnf) unharmed(after string) {
	v.t.Helper()
	now := object{}
	for name, value := range v.kept.heat.Parameters {
		if name != "nfv" && !strings.HasSuffix(name, "_desired") {
			now[name] = value
		}
	}
	if text, ok := now["nodehitch_root_certificate"].(string); ok {
		now["nodehitch_root_certificate"] = strings.ReplaceAll(text, `\n`, "\n") // as the package's template does, once
	}
	if v.kept.given == nil {
		v.kept.given = now
	}
	if !reflect.DeepEqual(now, v.kept.given) {
		for name := range now {
			if !reflect.DeepEqual(now[name], v.kept.given[name]) {
				v.t.Errorf("after %s the parameter %s is %.90q, was %.90q", after, name, now[name], v.kept.given[name])
			}
		}
		if len(now) != len(v.kept.given) {
			v.t.Errorf("after %s there are %d parameters, were %d", after, len(now), len(v.kept.given))
		}
	}
	for _, name := range ownUserData {
		if want, asked := v.wanted()[name]; asked && now[name] != want {
			v.t.Errorf("after %s the parameter %s is %q; the request has %q", after, name, now[name], want)
		}
	}
	root := now["nodehitch_root_certificate"]
	if lines, ok := now["nodehitch_root_certificate_lines"].([]any); ok {
		var text strings.Builder
		for _, line := range lines {
			text.WriteString(line.(string) + "\n")
		}
		root = text.String()
	}
	if want := v.Trust().RootCertificate; root != want {
		v.t.Errorf("after %s a new server would trust %.90q, want %.90q", after, root, want)
	}
}

// sized asserts that an update of the stack leaves its groups as large as they are: Heat makes each as large as the template and
// its parameters say.
func (v *vnf) sized() {
	v.t.Helper()
	heat := v.kept.heat
	for name, members := range map[string][]*server{"master_instance": v.masters, "worker_instance": v.workers} {
		size := heat.Template["resources"].(object)[name].(object)["properties"].(object)["desired_capacity"]
		if of, ok := size.(object); ok {
			parameter := of["get_param"].(string)
			if size = heat.Parameters[parameter]; size == nil {
				size = heat.Template["parameters"].(object)[parameter].(object)["default"]
			}
		}
		if size != float64(len(members)) {
			v.t.Errorf("Heat makes %s %v large; it has %d members", name, size, len(members))
		}
	}
}

// wanted are the additionalParams of the request.
func (v *vnf) wanted() object { return v.body["additionalParams"].(object) }

// healed is what Tacker and Heat do between heal_start and heal_end. No server means the entire VNF, whose stack
// is made anew.
func (v *vnf) healed(servers ...*server) {
	v.t.Helper()
	entire := len(servers) == 0
	if entire {
		servers = v.servers()
	}
	vdus := []string{}
	for _, s := range servers {
		vdus = append(vdus, s.name)
		v.replace(s)
	}
	said := object{"vdus": vdus, "groups": object{"master_instance": len(v.masters), "worker_instance": len(v.workers)}}
	switch {
	case v.script != nil:
		v.script.makes("HEAL", v.script.healing)
	case entire:
		v.makes("heal_entire", said)
	default:
		v.makes("heal", said)
	}
	if entire {
		v.cloud.Remove(v.stack)
		v.stack, v.volume = "", uuid.NewString()
		v.heat("CREATE_COMPLETE")
	} else {
		v.heat("UPDATE_COMPLETE")
	}
	v.boot()
}

// connected is what Tacker and Heat do between the hooks of a change of connectivity. It returns why Tacker fails.
func (v *vnf) connected(points ...string) (problem string) {
	v.t.Helper()
	networks, members := object{}, object{}
	for _, point := range points {
		networks[point] = uuid.NewString()
	}
	k := &v.kept
	for _, resource := range k.heat.Template["resources"].(object) {
		if r := resource.(object); r["type"] == "OS::Heat::AutoScalingGroup" {
			name := r["properties"].(object)["resource"].(object)["type"].(string)
			members[name] = string(asJSON(v.t, k.heat.Files[name]))
		}
	}
	refused := v.toHeat("change_ext_conn", object{"networks": networks, "template": string(asJSON(v.t, k.heat.Template)), "members": members})
	if refused != "" && k.status == "CREATE_COMPLETE" {
		return "Stack CREATE completed successfully" // the status that Tacker shows instead of Heat's answer, which it logs
	}
	if refused != "" { // nor does Tacker notice it if the stack was updated before
		v.t.Errorf("Heat refuses the change of connectivity, and Tacker goes on: %s", refused)
	}
	v.unharmed("change_ext_conn")
	v.sized()
	v.updated()
	return ""
}

// heal is a whole one of the v1 API.
func (v *vnf) heal(servers ...*server) {
	v.t.Helper()
	request := healRequest(servers...)
	v.begin("HEAL", nil)
	v.call("heal_start", request, nil).succeeds()
	v.healed(servers...)
	v.call("heal_end", request, nil).succeeds()
}

// healRequest names the VNFCs of these servers; none for the entire VNF.
func healRequest(servers ...*server) object {
	vnfcs := []string{}
	for _, s := range servers {
		vnfcs = append(vnfcs, s.vnfc)
	}
	return object{"vnfc_instance_id": vnfcs}
}
