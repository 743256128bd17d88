// Command lab-image builds the lab's machine images into the cache, so that no
// test or demonstration has to wait for them, and says how long each took.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
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
		return fmt.Errorf("this host cannot run the lab:\n- %s", strings.Join(lacks, "\n- "))
	}
	began := time.Now()
	l, err := lab.Open(ctx, lab.Options{Log: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }})
	if err != nil {
		return err
	}
	if err := errors.Join(l.BuildImages(ctx), l.Close()); err != nil {
		return err
	}
	fmt.Printf("all images are there, %.1f s\n", time.Since(began).Seconds())
	return nil
}
