package main

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
)

// The demo is the end-to-end proof: user_data through real cloud-init on a cold
// VM, to a file written over NFS by another machine.
func TestDemo(t *testing.T) {
	labtest.Require(t, lab.KindVM)
	t.Chdir("../..") // it is run from the root of the tree
	if err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
