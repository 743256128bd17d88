package hot

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Heat asks for every template that is nested in the one of an update; Tacker's v1 API gives
// it those of groups' members.
func TestTheFirstAPINestsOnlyMembersOfGroups(t *testing.T) {
	for _, flavour := range Flavours {
		top, nested := BaseHOT(flavour, V1)
		members := map[string]bool{}
		for name, r := range parse(t, top).Resources {
			if strings.HasSuffix(r.Type, ".yaml") {
				t.Errorf("%s: %s is the template %s, which is nested outside of groups", flavour, name, r.Type)
			}
			if member, ok := r.Properties["resource"].(map[string]any); ok {
				members[member["type"].(string)] = true
			}
		}
		if diff := cmp.Diff(keys(members), keys(nested)); diff != "" {
			t.Errorf("%s: %s", flavour, diff)
		}
	}
}

// serversUserData is the user_data of each server and of each group's members.
func serversUserData(e *evaluator) map[string]string {
	found := map[string]string{}
	for name, r := range e.Resources {
		switch member, _ := r.Properties["resource"].(map[string]any); {
		case r.Type == "OS::Nova::Server":
			found[name] = e.value(r.Properties["user_data"]).(string)
		case member != nil:
			found[name] = e.value(member["properties"].(map[string]any)["user_data"]).(string)
		}
	}
	return found
}

// Whichever form makes the user_data, the machine gets the same bytes.
func TestTheFirstAPIsServersGetTheSameUserData(t *testing.T) {
	for _, flavour := range Flavours {
		top, _ := BaseHOT(flavour, V1)
		for _, own := range []string{"", "#!/bin/sh\necho grün \"$0\" '\\n'\n"} {
			for _, script := range []string{"", string(clusterScript(t, 100))} {
				for _, wait := range []bool{false, true} {
					given := map[string]any{
						"nodehitch_controller_urls": []any{urls[0], urls[1]}, "nodehitch_root_certificate": rootPEM(t),
						"nodehitch_pin": params(t).Pin, "nodehitch_join_token": token, "nodehitch_cluster_script": script, "nodehitch_wait_for_nodes": wait,
					}
					for _, line := range lines(rootPEM(t)) {
						list, _ := given["nodehitch_root_certificate_lines"].([]any)
						given["nodehitch_root_certificate_lines"] = append(list, line)
					}
					for _, role := range []string{"master", "worker", "storage_server", "registry"} {
						given[role+"_user_data"] = strings.ReplaceAll(own, "grün", role)
					}
					want := serversUserData(evaluate(t, Files()[flavour+".yaml"], given))
					got := serversUserData(evaluate(t, top, given))
					if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
						t.Errorf("%s, own %q, %d bytes of script, wait %v: %s", flavour, own, len(script), wait, diff)
					}
					for name, text := range got {
						if ours := strings.Contains(text, "__NODEHITCH_HEAT_SIGNAL_URL__") == (wait && strings.HasSuffix(name, "_instance")); !ours {
							t.Errorf("%s: %s, wait %v: the place of the signal's URL", flavour, name, wait)
						}
					}
				}
			}
		}
	}
}

// Tacker's v1 API keeps a base HOT's parameters, and the base HOT itself, in a column of 65,535
// bytes. The parameters become the text of a dict, which it reads as YAML, at each heal again.
func TestTheFirstAPIKeepsParameters(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import yaml").CombinedOutput(); err != nil {
		t.Skipf("needs python3-yaml: %v: %s", err, out)
	}
	additional, err := AdditionalParams(params(t))
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder // what hitchctl lets through
	for r := range rune(0xC00) {
		if Unkept(string(r)) == "" {
			kept.WriteRune(r)
		}
	}
	var all []any
	for _, flavour := range Flavours {
		top, _ := BaseHOT(flavour, V1)
		top = WithClusterScript(top, clusterScript(t, 20000))
		parameters := taken(t, top, additional)
		parameters["a text"] = kept.String()
		all = append(all, map[string]any{"template": top, "parameters": parameters})
	}
	given, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/keep.py")
	cmd.Stdin = bytes.NewReader(given)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "\n") != len(all) {
		t.Errorf("%v: %s", err, out)
	}
}

// taken are those of the additionalParams that a base HOT has as parameters, as Tacker's
// UserData takes them, and nfv.
func taken(t *testing.T, top string, additional []byte) map[string]any {
	t.Helper()
	var given map[string]any
	if err := json.Unmarshal(additional, &given); err != nil {
		t.Fatal(err)
	}
	h := parse(t, top)
	for name := range given {
		if h.Parameters[name] == nil {
			delete(given, name)
		}
	}
	given["nfv"] = nfv(h)
	return given
}
