// Command pause holds the namespaces of a Pod, as Kubernetes' own pause does. It does not reap
// what a Pod with shareProcessNamespace leaves behind.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
