// Command results-table prints the table of a run's cases from the folder that
// NODEHITCH_RESULTS named, and fails when a case failed or none was run.
package main

import (
	"fmt"
	"os"

	"github.com/nodehitch/nodehitch/e2e/results"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: results-table FOLDER")
		os.Exit(2)
	}
	records, err := results.Load(os.Args[1])
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("no case has left a record in %s", os.Args[1])
	}
	failed := 0
	if err == nil {
		failed, err = results.Markdown(os.Stdout, records)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "results-table:", err)
		os.Exit(1)
	}
	if failed > 0 {
		os.Exit(1)
	}
}
