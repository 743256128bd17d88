// Command demo shows nodehitch in action on this machine: a controller, a storage
// VM that gets its role by user_data alone, and a client that writes a file over
// NFS. It leaves nothing behind but the image cache.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/lab/image"
	"github.com/nodehitch/nodehitch/e2e/site"
)

func main() {
	if missing := lab.Missing(lab.KindVM); len(missing) > 0 {
		fmt.Fprintln(os.Stderr, "the demo cannot run here:")
		for _, m := range missing {
			fmt.Fprintln(os.Stderr, "  -", m)
		}
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the demo from an empty lab to an empty host.
func run(ctx context.Context) (err error) {
	watch := newStopwatch()
	fmt.Println("Machines and their images (built once, then cached)")
	if err := prepareImage(ctx); err != nil {
		return err
	}
	watch.lap("machine image")
	l, err := lab.Open(ctx, lab.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	s, err := site.Open(ctx, l, "bin")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	watch.lap("controller started")

	ctx, cancel := context.WithCancel(ctx)
	d := &demo{site: s, watch: watch}
	defer func() { cancel(); _ = d.booting.Wait() }() // the lab is closed after all that uses it
	for _, stage := range []func(context.Context) error{d.instantiate, d.boot, d.converge, d.useVolume, d.summary} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

func progress(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

// prepareImage builds the VMs' image if the cache does not have it.
func prepareImage(ctx context.Context) error {
	cache, err := image.OpenCache("", progress)
	if err != nil {
		return err
	}
	system, err := image.System("").OrDefault()
	if err == nil {
		_, err = cache.VM(ctx, system)
	}
	return errors.Join(err, cache.Close())
}

// stopwatch remembers how long each stage took.
type stopwatch struct {
	last time.Time
	laps []lap
}

type lap struct {
	name string
	took time.Duration
}

func newStopwatch() *stopwatch { return &stopwatch{last: time.Now()} }

func (w *stopwatch) lap(name string) {
	now := time.Now()
	w.laps = append(w.laps, lap{name, now.Sub(w.last)})
	w.last = now
}
