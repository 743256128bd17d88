package hot

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/cloudinit"
)

// API is a version of Tacker's VNF LCM API. The two have other names for what they put into
// the parameter nfv of a base HOT.
type API string

// The versions of the API.
const (
	V1 API = "v1"
	V2 API = "v2"
)

// BaseHOT is the base HOT that makes what the template of this name makes, and the templates
// nested in it, by name.
func BaseHOT(template string, api API) (top string, nested map[string]string) {
	all := Files()
	top, nested = all[template+".yaml"], map[string]string{}
	if api == V1 {
		top = flat(top, all[Agent])
	}
	for name, text := range all {
		if strings.Contains(top, "type: "+name+"\n") {
			nested[name] = text
		}
	}
	if api == V2 {
		return desired.ReplaceAllString(namesOfV2.Replace(top), ""), nested
	}
	for _, found := range least.FindAllStringSubmatch(top, -1) {
		top = strings.Replace(top, "{get_param: "+found[1]+"}", found[2], 1)
	}
	return least.ReplaceAllString(top, ""), nested
}

// With the v1 API, the least size of a group is a number: before SCALE_IN Tacker compares it.
var least = regexp.MustCompile(`(?m)^  ((?:master|worker)_min): \{.*default: (\d+),.*\n`)

// With the v2 API, nfv also has how large a group is: it is no parameter of its own.
var (
	namesOfV2 = strings.NewReplacer(
		", flavor]}", ", computeFlavourId]}", ", image]}", ", vcImageId]}",
		"{get_param: master_desired}", "{get_param: [nfv, VDU, masterNode, desired_capacity]}",
		"{get_param: worker_desired}", "{get_param: [nfv, VDU, workerNode, desired_capacity]}",
	)
	desired = regexp.MustCompile(`(?m)^  (?:master|worker)_desired:\n(?:    .*\n)+`)
)

// WithController is the base HOT with the URLs, the root certificate and the pin of p as
// defaults of the parameters, so that a request need not have them. The join token of p is
// not used: it is a secret, and of one instance. The error says everything that is wrong.
func WithController(top string, p cloudinit.Params) (string, error) {
	p, err := p.CheckedTrust()
	if err != nil {
		return "", fmt.Errorf("rendering the parameters: %w", err)
	}
	for name, value := range map[string]string{
		"nodehitch_controller_urls":        strings.Join(p.ControllerURLs, ","),
		"nodehitch_root_certificate":       string(p.RootPEM),
		"nodehitch_root_certificate_lines": strings.Join(lines(string(p.RootPEM)), ","),
		"nodehitch_pin":                    p.Pin,
	} { // of the two forms of the certificate a base HOT has one
		top = strings.Replace(top, "\n  "+name+":\n", "\n  "+name+":\n    default: "+strconv.Quote(value)+"\n", 1)
	}
	return top, nil
}

// WithClusterScript is the template of a cluster with the script as the default of its
// parameter. What masters and workers may have as user_data of their own is less by what the
// script takes. A template without masters and workers stays as it is.
func WithClusterScript(top string, script cloudinit.ClusterScript) string {
	const parameter = "\n  nodehitch_cluster_script:\n    type: string\n    default: "
	if !strings.Contains(top, parameter+"''") {
		return top
	}
	top = strings.Replace(top, parameter+"''", parameter+strconv.Quote(string(script)), 1)
	return ownOfMembers.ReplaceAllString(top, "${1}"+strconv.Itoa(cloudinit.MaxOwn-script.Size()))
}

// ownOfMembers is how much user_data of their own masters and workers may have.
var ownOfMembers = regexp.MustCompile(`(\n  (?:master|worker)_user_data:\n(?:    .*\n)+?    constraints: \[\{length: \{max: )\d+`)
