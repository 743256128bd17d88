// Command names prints every public name of the product: what others write into
// scripts, dashboards, packages and VMs, and what stays on disks. Each is read from
// where the code declares it; none is typed here a second time. docs/dev/public-names.txt
// is what it printed last: `make names` writes it, `make lint` compares.
//
// The API is not among them: `make api-check` compares its document with that of the oldest
// supported build. Nor are the files of the packages, which e2e/release compares. It cannot
// see names that are made at run time: of mount units, the values of labels that come from
// requests, the conditions that hitchctl waits for; a * stands for such a part of a path.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// group is names of one kind.
type group struct {
	title string
	list  func(context.Context, *source) ([]string, error)
}

var groups = []group{
	{"Problem types", problemTypes},
	{"Condition types", conditionTypes},
	{"Reasons", reasons},
	{"Reasons of an agent's upgrade", upgradeReasons},
	{"Metrics", metrics},
	{"Values of the log's fields event and reason, and of the metrics' labels event and result", events},
	{"Settings of configuration files", settings},
	{"Environment variables", variables},
	{"Commands and flags, with their defaults", commands},
	{"Exit codes", exitCodes},
	{"Files and directories; * is not known before the program runs", paths},
	{"systemd units", units},
	{"Attributes of additionalParams that are read", attributes},
	{"Members of files, stored records and printed JSON, by Go type", members},
	{"Heat templates", templates},
	{"user_data", userData},
}

func main() {
	flag.Parse()
	page, err := render(context.Background())
	if err == nil && flag.NArg() == 1 {
		err = os.WriteFile(flag.Arg(0), []byte(page), 0o644)
	} else if err == nil {
		_, err = fmt.Print(page)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "names:", err)
		os.Exit(1)
	}
}

func render(ctx context.Context) (string, error) {
	src, err := load(ctx)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString("Every public name, made from the code: `make names` writes this file, `make lint` compares.\n")
	for _, g := range groups {
		list, err := g.list(ctx, src)
		if err == nil && len(list) == 0 {
			err = errors.New("found none")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", g.title, err)
		}
		fmt.Fprintf(&page, "\n# %s\n%s\n", g.title, strings.Join(once(list), "\n"))
	}
	return page.String(), nil
}

// once is the list in order, each line once.
func once(list []string) []string {
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
	})
	return slices.Compact(list)
}
