// Command openstack-build builds the images of OpenStack into the cache, so that the tests
// that need them can run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/openstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if lacks := lab.Missing(lab.KindNspawn); len(lacks) > 0 {
		fail(fmt.Errorf("this host cannot run the lab:\n- %s", strings.Join(lacks, "\n- ")))
	}
	if err := openstack.Build(ctx, "", func(format string, args ...any) { fmt.Printf(format+"\n", args...) }); err != nil {
		fail(err)
	}
	fmt.Printf("OpenStack is there, %.1f s\n", time.Since(began).Seconds())
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "openstack-build:", err)
	os.Exit(1)
}
