package store

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The file survives a controller that is killed in the middle of its writes with
// all that was acknowledged.
func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	if dir := os.Getenv("STORE_TEST_WRITER"); dir != "" {
		writeUntilKilled(t, place{dir: dir})
	}
	p := newPlace(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledWriterLosesNothingAcknowledged$")
	cmd.Env = append(os.Environ(), "STORE_TEST_WRITER="+p.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := make([]byte, 200)
	n := 0
	for n < len(acknowledged) {
		m, err := out.Read(acknowledged[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the writer ended before it was killed")
	}
	s := p.open(t)
	view(t, s, func(tx *Tx) error {
		all, err := tx.Operations().All()
		if err != nil {
			t.Error(err)
		}
		if len(all) < n {
			t.Errorf("%d records, and %d were acknowledged", len(all), n)
		}
		for i, op := range all {
			if op.Sequence != int64(i) {
				t.Fatalf("record %d has sequence %d", i, op.Sequence)
			}
		}
		return nil
	})
}

func writeUntilKilled(t *testing.T, p place) {
	s := p.open(t)
	for i := int64(0); ; i++ {
		update(t, s, func(tx *Tx) error {
			var o Operation
			o.Sequence = i
			return tx.Operations().Put(OperationKey("i1", i), o)
		})
		fmt.Print(".")
	}
}
