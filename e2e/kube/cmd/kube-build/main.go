// Command kube-build builds etcd, Kubernetes' API server and controller manager,
// and kubectl into the cache, so that the tests that need them can run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if err := kube.Build(ctx, "", func(format string, args ...any) { fmt.Printf(format+"\n", args...) }); err != nil {
		fmt.Fprintln(os.Stderr, "kube-build:", err)
		os.Exit(1)
	}
	fmt.Printf("Kubernetes' programs are there, %.1f s\n", time.Since(began).Seconds())
}
