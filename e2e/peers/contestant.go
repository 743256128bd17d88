package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// contestant is a program that brings a machine into the state of a role.
type contestant struct {
	name string
	// version is a command that prints it.
	version []string
	// policy is the suffix of its policies; nodehitch has none, but a document.
	policy string
	// apply is the command that applies a policy, told to say what it has changed.
	apply func(policy string) []string
	// changed reads that: how much was changed, or why it cannot be known.
	changed func(run) (int, error)
}

// document is what nodehitch converged last.
const document = "/var/lib/nodehitch/agent/last-known-good.json"

// ours is nodehitch as a process of its own, like the peers. The daemon needs less, because
// it keeps what it has read.
var ours = contestant{
	name: "nodehitch", version: []string{"nodehitch-agent", "version"},
	apply: func(string) []string {
		return []string{"nodehitch-agent", "apply", "--filename", document, "--output", "json"}
	},
	changed: changedByNodehitch,
}

var theirs = []contestant{
	{
		name: "cf-agent", version: []string{"cf-agent", "--version"}, policy: ".cf",
		// Without --no-lock it asks at most once a minute.
		apply:   func(policy string) []string { return []string{"cf-agent", "--no-lock", "--inform", "--file", policy} },
		changed: changedByCFEngine,
	},
	{
		name: "puppet", version: []string{"puppet", "--version"}, policy: ".pp",
		apply:   func(policy string) []string { return []string{"puppet", "apply", "--detailed-exitcodes", policy} },
		changed: changedByPuppet,
	},
	{
		name: "ansible", version: []string{"dpkg-query", "--show", "--showformat=${Version}", "ansible-core"}, policy: ".yml",
		apply: func(policy string) []string {
			return []string{"ansible-playbook", "--connection", "local", "--inventory", "localhost,", policy}
		},
		changed: changedByAnsible,
	},
}

// debs are the Debian packages of the peers, with what their policies need.
var debs = []string{"cfengine3", "puppet-agent", "ansible-core", "python3-apt"}

func changedByNodehitch(r run) (int, error) {
	var pass struct {
		Converged bool
		Steps     []struct{ Planned []string }
		Changes   map[string]int
	}
	// What it does is told before the outcome.
	at := strings.Index(r.Output, "{\n")
	if at < 0 {
		return 0, errors.New("there is no outcome")
	}
	if err := json.Unmarshal([]byte(r.Output[at:]), &pass); err != nil {
		return 0, err
	}
	if !pass.Converged || len(pass.Steps) == 0 || len(pass.Changes) == 0 {
		return 0, errors.New("it has not converged, or checked nothing")
	}
	changed := 0
	for _, step := range pass.Steps {
		changed += len(step.Planned)
	}
	for _, n := range pass.Changes {
		changed += n
	}
	return changed, nil
}

// It prints lines for each repair, and none otherwise; its exit code does not tell whether a
// promise was kept.
func changedByCFEngine(r run) (int, error) {
	if strings.Contains(r.Output, "error: ") {
		return 0, errors.New("not all promises are kept")
	}
	return strings.Count(r.Output, "info: "), r.failed(0)
}

// With --detailed-exitcodes 0 is nothing to do, 2 something done and all well.
func changedByPuppet(r run) (int, error) {
	if !strings.Contains(r.Output, "Applied catalog in ") {
		return 0, errors.New("it has applied no catalog")
	}
	if r.Code == 2 {
		return 1, nil
	}
	return 0, r.failed(0)
}

var recap = regexp.MustCompile(`ok=([1-9]\d*) +changed=(\d+) +unreachable=0 +failed=0 `)

func changedByAnsible(r run) (int, error) {
	found := recap.FindStringSubmatch(r.Output)
	if found == nil {
		return 0, errors.New("no host has finished")
	}
	var changed int
	_, err := fmt.Sscan(found[2], &changed)
	return changed, errors.Join(err, r.failed(0))
}
