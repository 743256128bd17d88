package main

import (
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/labtest"
)

// The demo covers the whole path: from user_data through real cloud-init on a cold VM, to
// a file that another machine writes over NFS.
func TestDemo(t *testing.T) {
	labtest.Require(t, lab.KindVM)
	t.Chdir("../..") // it is run from the root of the tree
	if err := run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
