// Command break makes the breaks of the tree, from its root, one at a time, runs their tests
// and prints a table. It fails if one survived or could not be run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"

	"github.com/nodehitch/nodehitch/e2e/breaks"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names := flag.String("run", "", "run those whose name matches the `regexp`")
	list := flag.Bool("list", false, "list them instead")
	verbose := flag.Bool("v", false, "show by what each was caught")
	flag.Parse()
	if err := run(ctx, *names, *list, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "break:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names string, list, verbose bool) error {
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
