// Command break makes the breaks of the tree, from its root, one at a time, runs their tests
// and prints a table. It fails if one survived or could not be run.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/e2e/breaks"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names := flag.String("run", "", "run those whose name matches the `regexp`")
	sample := flag.Int("sample", 0, "run at most this many that need no machine, no kube-apiserver and no programs: first those whose code or test the last commits changed, then others in an order that differs by commit")
	list := flag.Bool("list", false, "list them instead")
	verbose := flag.Bool("v", false, "show by what each was caught")
	flag.Parse()
	if err := run(ctx, *names, *sample, *list, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "break:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names string, sample int, list, verbose bool) error {
	match, err := regexp.Compile(names)
	if err != nil {
		return err
	}
	all, err := breaks.Load(".")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(b breaks.Break) bool { return !match.MatchString(b.Name) })
	if len(all) == 0 {
		return fmt.Errorf("no break has a name that matches %q", names)
	}
	if sample > 0 {
		if all, err = sampled(ctx, all, sample); err != nil {
			return err
		}
	}
	if list {
		for _, b := range all {
			fmt.Printf("%s: %s\n\t%s\n", b.Name, b.Broken, b.Test)
		}
		return nil
	}
	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	return table(ctx, checkout, all, verbose)
}

// lastCommits is whose changes come first in a sample.
const lastCommits = 10

// sampled are the breaks of a sample.
func sampled(ctx context.Context, all []breaks.Break, most int) ([]breaks.Break, error) {
	out, err := exec.CommandContext(ctx, "git", "log", "--name-only", "--format=", "-n", strconv.Itoa(lastCommits)).Output()
	if err != nil {
		return nil, fmt.Errorf("git log: %w", err)
	}
	changed := strings.Fields(string(out))
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return nil, fmt.Errorf("git rev-parse: %w", err)
	}
	all = slices.DeleteFunc(all, func(b breaks.Break) bool { return len(b.Test.Needs) > 0 })
	order := func(b breaks.Break) [32]byte {
		sum := sha256.Sum256([]byte(string(commit) + b.Name))
		sum[0] |= 1
		if slices.ContainsFunc(changed, b.Touches) {
			sum[0] = 0
		}
		return sum
	}
	slices.SortFunc(all, func(a, b breaks.Break) int {
		x, y := order(a), order(b)
		return bytes.Compare(x[:], y[:])
	})
	return all[:min(most, len(all))], nil
}

// table prints a row for each break when it is over, then what is wrong.
func table(ctx context.Context, checkout string, all []breaks.Break, verbose bool) error {
	fmt.Println("| break | test | result | seconds |\n|---|---|---|---|")
	counts := map[breaks.Outcome]int{}
	details := ""
	err := breaks.Run(ctx, checkout, all, func(r breaks.Result) {
		counts[r.Outcome]++
		fmt.Printf("| %s | %s | %s | %.1f |\n", r.Name, r.Test, r.Outcome, r.Seconds)
		if verbose || r.Outcome != breaks.Caught {
			details += fmt.Sprintf("\n== %s: %s: %s\n%s\n", r.Name, r.Outcome, r.Broken, r.Detail)
		}
	})
	fmt.Printf("%s\n%d breaks: %d caught, %d survived, %d not run\n",
		details, len(all), counts[breaks.Caught], counts[breaks.Survived], len(all)-counts[breaks.Caught]-counts[breaks.Survived])
	if err == nil && counts[breaks.Caught] < len(all) {
		err = fmt.Errorf("a break was not caught")
	}
	return err
}
