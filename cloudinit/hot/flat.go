package hot

import (
	"regexp"
	"strings"
	"unicode"
)

// flat is a template for Tacker's v1 API, with what the agent's template makes in it: the
// cloud-configs once, and the user_data of each role as <role>_agent.
//
// When the v1 API changes the external connectivity, it gives Heat the stack's own template
// again, and of those that are nested in it only the ones of groups' members. And it keeps
// parameters as the text of a Python dict, which it reads as YAML at each heal: each time, the
// backslashes of a line break become twice as many.
func flat(top, agent string) string {
	_, agent, _ = strings.Cut(namesOfV1.Replace(agent), "\nconditions:\n")
	conditions, agent, _ := strings.Cut(agent, "\nresources:\n")
	resources, _, _ := strings.Cut(agent, "\noutputs:\n")
	configs, userData, _ := strings.Cut(resources, "\n  user_data:\n")
	own, conditions, _ := strings.Cut(conditions, "\n")
	if !strings.Contains(top, "\n      cluster_script: ") {
		configs, _, _ = strings.Cut(configs, "\n  cluster_config:\n")
		conditions = withScript.ReplaceAllString(conditions, "")
	}
	var owns string
	top = nesting.ReplaceAllStringFunc(top, func(nested string) string {
		role, text := nesting.FindStringSubmatch(nested)[1], userData
		if !strings.Contains(nested, "\n      cluster_script: ") {
			text = withScript.ReplaceAllString(text, "")
		}
		ofRole := strings.NewReplacer("own: ", role+"_own: ", "[own, ", "["+role+"_own, ", "own_user_data", role+"_user_data")
		owns += ofRole.Replace(own) + "\n"
		return "  " + role + "_agent:\n" + ofRole.Replace(text)
	})
	top = onlyWait.ReplaceAllString(top, "\nresources:\n")
	top = strings.Replace(top, "\nresources:\n", "\nconditions:\n"+owns+conditions+"\nresources:\n"+configs+"\n", 1)
	top = ofMember.ReplaceAllString(top, "${1}{if: [wait, {get_attr: [$2, config]}, {get_resource: $2}]}")
	top = ofServer.ReplaceAllString(top, "${1}{get_resource: $2}")
	return textsOfV1.Replace(certificate.ReplaceAllString(top, certificateLines))
}

var (
	nesting    = regexp.MustCompile(`(?m)^  (\w+)_agent:\n    type: nodehitch-agent\.yaml\n    properties:\n(?:      .*\n)+`)
	onlyWait   = regexp.MustCompile(`\nconditions:\n  wait: .*\n\nresources:\n`)
	withScript = regexp.MustCompile(`(?m)^ *(?:- if: \[script, |script: ).*\n`)
	// The output user_data of what was nested: the text if Heat waits, the id otherwise.
	ofMember    = regexp.MustCompile(`( user_data: )\{get_attr: \[(\w+), user_data\]\}`)
	ofServer    = regexp.MustCompile(`(        - )\{get_attr: \[(\w+), user_data\]\}`)
	certificate = regexp.MustCompile(`(?m)^  nodehitch_root_certificate:\n(?:    .*\n)+`)
)

// What the agent's template takes as parameters of its own, the base HOT has.
var namesOfV1 = strings.NewReplacer(
	"{get_param: controller_urls}", "{get_param: nodehitch_controller_urls}",
	"{get_param: root_certificate}", `{list_join: ["\n", {get_param: nodehitch_root_certificate_lines}, ['']]}`,
	"{get_param: pin}", "{get_param: nodehitch_pin}",
	"{get_param: join_token}", "{get_param: nodehitch_join_token}",
	"{get_param: cluster_script}", "{get_param: nodehitch_cluster_script}",
)

const certificateLines = `  nodehitch_root_certificate_lines:
    type: comma_delimited_list
    description: the lines of the controller's root CA, PEM; nothing else is trusted
    constraints: [{length: {max: 123}}]
`

var textsOfV1 = strings.NewReplacer(
	", text for cloud-init or a software config's id", ", the id of a software config that holds it; Tacker alters text",
	", user_data]}}}}", ", config]}}}}",
)

// Unkept says what a text contains that is not possible in a parameter of a base HOT for Tacker's v1
// API, "" if there is nothing: Python writes it with a backslash, or in another kind of quotes.
func Unkept(text string) string {
	var found []string
	for _, kind := range []struct {
		name string
		is   func(rune) bool
	}{
		{"line breaks", func(r rune) bool { return r == '\n' || r == '\r' }},
		{"backslashes", func(r rune) bool { return r == '\\' }},
		{"quotes", func(r rune) bool { return r == '\'' || r == '"' }},
		{"characters that are not printable", func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\r' }},
	} {
		if strings.ContainsFunc(text, kind.is) {
			found = append(found, kind.name)
		}
	}
	return strings.Join(found, " and ")
}
