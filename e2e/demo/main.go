// Command demo shows nodehitch at work on this machine: a controller, a storage
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
	l, err := lab.Open(ctx, lab.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.BuildImages(ctx, lab.KindVM); err != nil {
		return err
	}
	watch.lap("machine images and snapshot")

	s, err := site.Open(ctx, l, "bin")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	watch.lap("controller started")

	d := &demo{site: s, watch: watch}
	for _, stage := range []func(context.Context) error{d.instantiate, d.boot, d.converge, d.useVolume, d.summary} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

func progress(format string, args ...any) { fmt.Printf("  "+format+"\n", args...) }

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
