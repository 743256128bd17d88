// Command containerd-build builds containerds of several versions into the cache, so that
// the tests that need them can run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodehitch/nodehitch/e2e/containerd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := containerd.Build(ctx, "", func(format string, args ...any) { fmt.Printf(format+"\n", args...) }); err != nil {
		fmt.Fprintln(os.Stderr, "containerd-build:", err)
		os.Exit(1)
	}
}
