package results

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

func TestTableOfSystems(t *testing.T) {
	records := []Record{
		{Suite: "disks", Case: "blank", Outcome: OK},
		{Suite: "disks", Case: "blank", System: image.Debian13, Outcome: OK},
		{Suite: "disks", Case: "luks", Outcome: OK},
		{Suite: "disks", Case: "luks", System: image.Debian13, Outcome: Failed},
		{Suite: "disks", Case: "lvm", System: image.Debian13, Outcome: Failed},
		{Suite: "registries", Case: "twenty", System: image.Debian12, Outcome: Skipped},
		{Suite: "registries", Case: "twenty", System: image.Debian13, Outcome: OK},
		{Suite: "openapi", Case: "operations", Outcome: OK},
	}
	var table strings.Builder
	if err := MarkdownSystems(&table, records); err != nil {
		t.Fatal(err)
	}
	const want = "\n| suite | debian12 | debian13 |\n|---|---|---|\n| disks | 2 ok | 1 ok, 2 FAILED (luks, lvm) |\n| registries | 0 ok, 1 skipped (twenty) | 1 ok |\n"
	if table.String() != want {
		t.Errorf("the table is %q", table.String())
	}
	table.Reset()
	if err := MarkdownSystems(&table, records[:1]); err != nil || table.Len() > 0 {
		t.Errorf("with one system there is a table: %v, %s", err, table.String())
	}
}

// A run for a system has it in the records of all its cases; a case may choose another.
func TestRecordsHaveTheSystem(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(EnvFolder, folder)
	t.Setenv(image.EnvSystem, string(image.Debian13))
	t.Run("of the run", func(t *testing.T) { Begin(t, "disks", "a", "") })
	t.Run("of the case", func(t *testing.T) { Begin(t, "disks", "b", "").On(image.Debian12) })
	records, err := Load(folder)
	if err != nil || len(records) != 2 || records[0].System != image.Debian13 || records[1].System != image.Debian12 {
		t.Errorf("%+v, %v", records, err)
	}
}
