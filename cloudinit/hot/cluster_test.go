package hot

import (
	"encoding/base64"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
)

func clusterScript(t *testing.T, noise int) cloudinit.ClusterScript {
	t.Helper()
	script := make([]byte, noise)
	_, _ = rand.NewChaCha8([32]byte{}).Read(script) // never fails
	packed, err := cloudinit.PackClusterScript(append([]byte("#!/bin/sh\nexit 0\n"), script...))
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// cloud-init gets the same as from `hitchctl render user-data`, beside the server's own.
func TestTheClustersScriptIsInTheUserData(t *testing.T) {
	script := clusterScript(t, 100)
	p := parameters(t, "#cloud-config\nruncmd:\n- [echo, own]\nwrite_files:\n- {path: /etc/own, content: theirs}\n")
	p["cluster_script"] = string(script)
	header, text := userData(t, p)
	got := consume(t, header+text).Config
	rendered, err := cloudinit.Render(cloudinit.Params{ControllerURLs: urls, RootPEM: []byte(rootPEM(t)), Pin: p["pin"].(string), JoinToken: token}, script)
	if err != nil {
		t.Fatal(err)
	}
	var want cloudConfig
	if err := yaml.UnmarshalStrict(rendered, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append([]any{[]any{"echo", "own"}}, want.RunCmd...), got.RunCmd); diff != "" {
		t.Errorf("runcmd: %s", diff)
	}
	if len(got.WriteFiles) != 1+len(want.WriteFiles) {
		t.Fatalf("%d files, want one more than %d", len(got.WriteFiles), len(want.WriteFiles))
	}
	for i, f := range want.WriteFiles {
		if is := got.WriteFiles[1+i]; f.Path != "/etc/nodehitch/agent.yaml" { // which is another JSON of the same
			if diff := cmp.Diff(f, is); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// limits are how much user_data of its own each role may have.
func limits(t *testing.T, template string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)\n  (\w+)_user_data:\n.*?max: (\d+)`).FindAllStringSubmatch(template, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		found[m[1]] = n
	}
	return found
}

func TestWithClusterScript(t *testing.T) {
	script := clusterScript(t, 5000)
	for _, flavour := range Flavours {
		for _, api := range []API{V1, V2} {
			top, _ := BaseHOT(flavour, api)
			with := WithClusterScript(top, script)
			if flavour == "registry" {
				if with != top {
					t.Error("a template without masters and workers has changed")
				}
				continue
			}
			if got := parse(t, with).Parameters["nodehitch_cluster_script"]["default"]; got != string(script) {
				t.Errorf("%s: the default is %.40v", flavour, got)
			}
			want := limits(t, top)
			want["master"] -= script.Size()
			want["worker"] -= script.Size()
			if diff := cmp.Diff(want, limits(t, with)); diff != "" || want["master"] <= 0 {
				t.Errorf("%s: user_data of their own: %s", flavour, diff)
			}
		}
	}
}

// Only masters and workers have it.
func TestOnlyMembersHaveTheScript(t *testing.T) {
	for _, flavour := range Flavours {
		for name, r := range parse(t, Files()[flavour+".yaml"]).Resources {
			_, has := r.Properties["cluster_script"]
			if member := name == "master_agent" || name == "worker_agent"; has != member {
				t.Errorf("%s: %s has the cluster's script: %v", flavour, name, has)
			}
		}
	}
}

// Nova takes all that a template with a script lets through.
func TestUserDataWithAScriptFits(t *testing.T) {
	for _, noise := range []int{0, 10000, 20000} {
		script := clusterScript(t, noise)
		p := parameters(t, strings.Repeat("#", limits(t, WithClusterScript(Files()["simple.yaml"], script))["worker"]))
		p["cluster_script"] = string(script)
		header, text := userData(t, p)
		if n := base64.StdEncoding.EncodedLen(len(header + text)); n > 65535 {
			t.Errorf("a script of %d bytes: Nova gets %d", noise, n)
		}
	}
}
