// Command kube-build builds etcd, Kubernetes' API server and controller manager,
// and kubectl into the cache, so that the tests that need them can run; with -etcd only etcd,
// with -machines also what machines of the lab need to be a cluster.
package main

import (
	"context"
	"flag"
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
	build, what := kube.Build, "Kubernetes' programs are"
	alone := flag.Bool("etcd", false, "build etcd alone")
	machines := flag.Bool("machines", false, "build also what machines of the lab need to be a cluster")
	switch flag.Parse(); {
	case *alone:
		build, what = kube.BuildEtcd, "etcd is"
	case *machines:
		build, what = kube.BuildMachines, "all that machines need to be a cluster is"
	}
	began := time.Now()
	if err := build(ctx, "", func(format string, args ...any) { fmt.Printf(format+"\n", args...) }); err != nil {
		fmt.Fprintln(os.Stderr, "kube-build:", err)
		os.Exit(1)
	}
	fmt.Printf("%s there, %.1f s\n", what, time.Since(began).Seconds())
}
