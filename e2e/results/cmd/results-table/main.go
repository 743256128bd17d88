// Command results-table prints the table of a run's cases from the folder that
// NODEHITCH_RESULTS named, or of several runs from theirs, or with -parts from the folder
// of the parts of `make e2e`. It fails when a case or a part failed, when none was run,
// and when a part is not there.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nodehitch/nodehitch/e2e/results"
)

func main() {
	parts := flag.Bool("parts", false, "the folder has the parts of `make e2e`")
	flag.Parse()
	if flag.NArg() == 0 || *parts && flag.NArg() > 1 {
		fmt.Fprintln(os.Stderr, "usage: results-table FOLDER...\n       results-table -parts FOLDER")
		os.Exit(2)
	}
	failed, err := table(flag.Args(), *parts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "results-table:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func table(folders []string, parts bool) (failed int, err error) {
	load := results.Load
	if parts {
		load = func(folder string) ([]results.Record, error) {
			runs, records, err := results.LoadParts(folder)
			if err == nil {
				failed, err = results.MarkdownParts(os.Stdout, runs)
			}
			return records, err
		}
	}
	var all []results.Record
	for _, folder := range folders {
		records, err := load(folder)
		if err != nil {
			return failed, err
		}
		if len(records) == 0 {
			return failed, fmt.Errorf("no case has left a record in %s", folder)
		}
		all = append(all, records...)
	}
	cases, err := results.Markdown(os.Stdout, all)
	if err == nil {
		err = results.MarkdownSystems(os.Stdout, all)
	}
	return failed + cases, err
}
