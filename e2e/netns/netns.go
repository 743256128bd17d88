// Package netns opens sockets in network namespaces by their names.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Path is the file of a namespace, as `ip netns add` makes it.
func Path(name string) string { return "/run/netns/" + name }

// Do runs open on a thread that is in the namespace meanwhile: a socket belongs for its
// life to the namespace in which it was made. A thread that cannot go back stays locked and
// ends with its goroutine.
func Do[T any](name string, open func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		var r result
		back, err := enter(name)
		if err != nil {
			r.err = err
		} else {
			r.value, r.err = open()
			if back() == nil {
				runtime.UnlockOSThread()
			}
		}
		done <- r
	}()
	r := <-done
	return r.value, r.err
}

func enter(name string) (back func() error, err error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	ns, err := os.Open(Path(name))
	if err != nil {
		home.Close()
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		home.Close()
		return nil, fmt.Errorf("entering network namespace %s: %w", name, err)
	}
	return func() error {
		defer home.Close()
		return unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
	}, nil
}
