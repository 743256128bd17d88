package results

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

func TestTableOfRecords(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(EnvFolder, folder)
	t.Setenv(EnvSuite, "") // a short run, also in make e2e
	t.Setenv(image.EnvSystem, "")
	t.Run("one", func(t *testing.T) {
		c := Begin(t, "disks", "gpt", "a partition table | is kept")
		c.Lost(0)
		c.Figure("read", "%d MiB", 7)
	})
	t.Run("two", func(t *testing.T) {
		c := Begin(t, "trust", "token", "a wrong token is refused")
		c.Unauthorised(0)
	})
	t.Run("three", func(t *testing.T) {
		Begin(t, "trust", "long", "a long one")
		LongOnly(t)
	})
	records, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	guilty := &Case{Record{Suite: "x", Case: "y", Outcome: Failed}}
	guilty.Unauthorised(0)
	if guilty.record.broken() {
		t.Error("a case that counted nothing is broken")
	}
	guilty.Unauthorised(2)
	if !guilty.record.broken() {
		t.Error("a case that counted two answers is not broken")
	}
	records = append(records, guilty.record)
	var table strings.Builder
	failed, err := Markdown(&table, records)
	if err != nil || failed != 1 {
		t.Errorf("failed %d, %v", failed, err)
	}
	for _, want := range []string{
		`| disks | gpt |  | a partition table \| is kept | ok |`, "| 0 |  | read 7 MiB |", "| x | y |  |  | FAILED | 0.0 s |  | 2 |  |", "| trust | long |  | a long one | skipped |",
		"4 cases: 2 ok, 1 failed, 1 skipped;", "lost bytes: 0; unauthorised answers: 2",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}
