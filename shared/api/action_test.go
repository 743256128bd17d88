package api_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/api"
)

// A program finds the call of an action in the document, and a person its command.
func TestEachActionIsACallWithACommand(t *testing.T) {
	document, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	enum := regexp.MustCompile(`enum: \[(adoptVolume[^]]*)\]`).FindSubmatch(document)
	if enum == nil {
		t.Fatal("the document has no ActionCall")
	}
	for name := range strings.SplitSeq(string(enum[1]), ", ") {
		if !regexp.MustCompile(`operationId: ` + name + `\n`).Match(document) {
			t.Errorf("no operation is called %s", name)
		}
		command := api.Action{Call: api.ActionCall(name), ID: "x"}.Command()
		if (command == "") != (name == string(api.CallPostOperation)) { // hitchctl alone knows the line that was typed
			t.Errorf("%s: the command is %q", name, command)
		}
	}
}
