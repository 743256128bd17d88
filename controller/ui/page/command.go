package page

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/describe"
)

// command is a line of hitchctl to copy, and what it does. Words in capitals are for the operator
// to fill in.
type command struct {
	Does, Line string
	// Destroys is whether it takes away what no other command brings back: it is marked and stands last.
	Destroys bool
}

func destroys(c command) command {
	c.Destroys = true
	return c
}

// destroyersLast sorts the commands of several objects.
func destroyersLast(list []command) []command {
	slices.SortStableFunc(list, func(a, b command) int {
		return cmp.Compare(describe.Truth(a.Destroys), describe.Truth(b.Destroys))
	})
	return list
}

// firstCommands bring a first instance to life, in their order.
func firstCommands() []command {
	return []command{
		hitchctl("1. hand over the request and the files of the VNF package: every fault is named before a VM exists. With OpenStack add --stack-id NAME",
			"apply", "INSTANCE", "-f", "REQUEST.json", "--package", "DIRECTORY"),
		hitchctl("2. without OpenStack: write the user_data, and start each VM with it", "render", "user-data", "INSTANCE", "--file", "user-data.yaml"),
		hitchctl("or, with OpenStack: write the Heat templates, and create the stack NAME of them", "render", "hot", "./templates"),
		hitchctl("3. instantiate it and wait until each node is Ready. With OpenStack leave --topology out",
			"operate", "INSTANCE", "INSTANTIATE", "--topology", "TOPOLOGY.json", "--wait"),
	}
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_%+=:,./@-]+$`)

// hitchctl is a command of hitchctl with its arguments, quoted for a shell.
func hitchctl(does string, arguments ...string) command {
	words := []string{"hitchctl"}
	for _, a := range arguments {
		if !plainWord.MatchString(a) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return command{Does: does, Line: strings.Join(words, " ")}
}
