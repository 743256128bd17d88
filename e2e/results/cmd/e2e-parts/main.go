// Command e2e-parts runs one part of `make e2e`, or all. It leaves their records and
// outcomes in a folder for results-table. A part that is run again replaces its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/store/storetest"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/e2e/lab/image"
	"github.com/nodehitch/nodehitch/e2e/results"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: e2e-parts FOLDER [PART]")
		os.Exit(2)
	}
	parts, err := chosen(os.Args[2:])
	failed := 0
	for _, part := range parts {
		ok, broken := run(ctx, os.Args[1], part)
		if err = broken; err != nil {
			break
		}
		if !ok {
			failed++
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e-parts:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// chosen is the part that is named, or all.
func chosen(named []string) ([]int, error) {
	var all []int
	for i := range results.Parts {
		all = append(all, i+1)
	}
	if len(named) == 0 {
		return all, nil
	}
	n, err := strconv.Atoi(named[0])
	if err != nil || n < 1 || n > len(all) {
		return nil, fmt.Errorf("there is no part %q: want 1 to %d", named[0], len(all))
	}
	return []int{n}, nil
}

// run runs a part to its end, also if tests fail. It returns an error if it was interrupted
// or its record cannot be written: no other part should follow.
func run(ctx context.Context, folder string, part int) (ok bool, err error) {
	r := results.Run{Part: part, Commit: commit(ctx)}
	if err := r.Begin(folder); err != nil {
		return false, err
	}
	began := time.Now()
	limited, stop := context.WithTimeout(ctx, results.PartLimit)
	defer stop()
	fmt.Printf("\n== part %d of %d, commit %s\n", part, len(results.Parts), r.Commit)
	outcome := results.OK
	for _, suite := range results.Parts[part-1] {
		end := func() error { return nil }
		var store string
		if suite.OnEtcd {
			if store, end, err = etcdtest.Alone(); err != nil {
				return false, err
			}
		}
		argv := arguments(suite, results.PartLimit-time.Since(began))
		cmd := exec.CommandContext(limited, "go", argv...)
		cmd.Env = append(os.Environ(), results.EnvSuite+"=full", results.EnvFolder+"="+results.PartFolder(folder, part), image.EnvSystem+"="+string(suite.System),
			storetest.Variable+"="+store)
		if slices.Contains(argv, "-race") { // the detector is C
			cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
		}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		// go test ends its processes, and the tests end theirs.
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		err := errors.Join(cmd.Run(), end())
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("part %d was interrupted", part)
		case limited.Err() != nil:
			fmt.Fprintf(os.Stderr, "part %d: cut off in %s after %v\n", part, suite.Package, results.PartLimit)
			return false, nil
		case err != nil:
			fmt.Fprintf(os.Stderr, "part %d: %s: %v\n", part, suite.Package, err)
			outcome = results.Failed
		}
	}
	r.Outcome, r.Seconds = outcome, time.Since(began).Seconds()
	return outcome == results.OK, r.Write(folder)
}

// arguments are those of go test, whose tests show where they are a minute before the part
// is cut off. Packages of the product have the race detector, as in `make test`, but not a
// second time; a suite has the machine to itself, and says how far it is.
func arguments(s results.Suite, left time.Duration) []string {
	argv := []string{"test", "-count=1", "-timeout", max(left-time.Minute, time.Second).String()}
	switch {
	case strings.HasPrefix(s.Package, "./e2e/"):
		argv = append(argv, "-p", "1", "-v")
	case s.OnEtcd:
		argv = append(argv, "-short")
	default:
		argv = append(argv, "-race")
	}
	if len(s.Tests) > 0 {
		argv = append(argv, "-run", "^("+strings.Join(s.Tests, "|")+")$")
	}
	return append(argv, s.Package)
}

// commit is what is checked out, and whether something is changed.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
