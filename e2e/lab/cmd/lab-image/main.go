// Command lab-image builds the lab's machine images into the cache, says how
// long each took, and prints where they are.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab-image:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context) error {
	if lacks := lab.Missing(); len(lacks) > 0 {
		return fmt.Errorf("this host cannot build the images:\n- %s", strings.Join(lacks, "\n- "))
	}
	cache, err := image.OpenCache("", func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	defer cache.Close()
	began := time.Now()
	path, err := cache.Nspawn(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-8s %s (%.1f s)\n", "nspawn", path, time.Since(began).Seconds())
	began = time.Now()
	vm, err := cache.VM(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%-8s %s (%.1f s)\n", "vm", vm.Disk, time.Since(began).Seconds())
	return nil
}
