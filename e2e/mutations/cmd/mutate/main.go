// Command mutate runs the mutations of e2e/mutations from the root of the tree and
// prints a table. It fails if one survived or could not be run.
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

	"github.com/nodehitch/nodehitch/e2e/mutations"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names := flag.String("run", "", "run those whose name matches the `regexp`")
	list := flag.Bool("list", false, "list them instead")
	verbose := flag.Bool("v", false, "show by what each was caught")
	flag.Parse()
	if err := mutate(ctx, *names, *list, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func mutate(ctx context.Context, names string, list, verbose bool) error {
	match, err := regexp.Compile(names)
	if err != nil {
		return err
	}
	all, err := mutations.Load("e2e/mutations")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutations.Mutation) bool { return !match.MatchString(m.Name) })
	if len(all) == 0 {
		return fmt.Errorf("no mutation in e2e/mutations has a name that matches %q", names)
	}
	if list {
		for _, m := range all {
			fmt.Printf("%s: %s\n\t%s\n", m.Name, m.Broken, m.Test)
		}
		return nil
	}
	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	return table(ctx, checkout, all, verbose)
}

// table prints a row for each mutation when it is over, then what is wrong.
func table(ctx context.Context, checkout string, all []mutations.Mutation, verbose bool) error {
	fmt.Println("| mutation | test | result | seconds |\n|---|---|---|---|")
	counts := map[mutations.Outcome]int{}
	details := ""
	err := mutations.Run(ctx, checkout, all, func(r mutations.Result) {
		counts[r.Outcome]++
		fmt.Printf("| %s | %s | %s | %.1f |\n", r.Name, r.Test, r.Outcome, r.Seconds)
		if verbose || r.Outcome != mutations.Caught {
			details += fmt.Sprintf("\n== %s: %s: %s\n%s\n", r.Name, r.Outcome, r.Broken, r.Detail)
		}
	})
	fmt.Printf("%s\n%d mutations: %d caught, %d survived, %d not run\n",
		details, len(all), counts[mutations.Caught], counts[mutations.Survived], len(all)-counts[mutations.Caught]-counts[mutations.Survived])
	if err == nil && counts[mutations.Caught] < len(all) {
		err = fmt.Errorf("a mutation was not caught")
	}
	return err
}
