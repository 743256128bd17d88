// Command with-etcd runs a command, such as `go test ./controller/lifecycle`, while there is an etcd,
// so that tests of the product have their stores there.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: with-etcd COMMAND [ARGUMENT …]")
		os.Exit(2)
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "with-etcd:", err)
		os.Exit(1)
	}
}

func run(argv []string) error {
	url, end, err := etcdtest.Alone()
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // an interrupt reaches both
	cmd.Env = append(os.Environ(), storetest.Variable+"="+url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return errors.Join(cmd.Run(), end())
}
