package strict_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/strict"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

// hostile are streams of 0.9 MB that took from a hundred to many thousands of times their
// size.
func hostile() map[string]struct{ text, fault string } {
	const size = 900_000
	times := func(part string, size int) string { return strings.Repeat(part, size/len(part)) }
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 30 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	long := strings.Repeat("k", 1000)
	var twice strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&twice, "a%d: 0, a%d: 0, ", i, i)
	}
	return map[string]struct{ text, fault string }{
		"lists in a list":         {"[" + times("[],", size) + "]", "more than 100000 values"},
		"objects in a list":       {"[" + times("{a: b},", size) + "]", "more than 100000 values"},
		"entries of a block":      {times("-\n", size), "more than 100000 values"},
		"a key a line":            {times("? a\n", size), "more than 100000 values"},
		"documents":               {times("--- a\n", size), "more than 100000 values"},
		"documents without marks": {times("a\n...\n", size), "more than 100000 values"},
		"many documents":          {times("--- a\n", 12_000), "more than 1000 YAML documents"},
		"aliases of aliases":      {laughs, ""}, // the parser's own words
		"a long text that many aliases repeat": {"a: &a " + times("x", size-10_000) + "\nb: [" + times("*a,", 2_000) + "]\n",
			"more than 2097152 bytes once its aliases are resolved"},
		"many aliases":               {"a: &a x\nb: [" + times("*a,", size) + "]\n", "more than 100000 values"},
		"aliases of a long list":     {"a: &a [" + times("x,", 20_000) + "]\nb: [*a, *a]\n", "more than 1000 values; write out"},
		"lists in lists":             {times("[", 9_000) + times("]", 9_000), "deeper than 100 levels"},
		"objects, just not too many": {"[" + times("{a: b},", 7*33_000) + "]", "ok"},
		"lists, just not too many":   {"[" + times("[],", 3*49_000) + "]", "ok"},
		"keys twice at a long path":  {strings.Repeat("{"+long+": ", 90) + "{" + twice.String() + strings.Repeat("}", 91), "given more than once"},
		"a long path":                {strings.Repeat("{"+long+": ", 90) + "[" + times("{},", 90_000) + "]" + strings.Repeat("}", 90), "ok"},
	}
}

// A value of some bytes takes some hundred, several times over: with as many values as there
// may be it is this, all that is thrown away on the way included.
const mostAllocated = jsontree.MaxValues * 2560

func TestAHostileStreamIsBounded(t *testing.T) {
	for name, test := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := strict.Documents([]byte(test.text))
			runtime.ReadMemStats(&after)
			switch {
			case test.fault == "ok" && err != nil:
				t.Errorf("%.300v", err)
			case test.fault != "ok" && (err == nil || !strings.Contains(err.Error(), test.fault)):
				t.Errorf("got %.300v, want %q", err, test.fault)
			case err != nil && len(err.Error()) > 12*len(test.text):
				t.Errorf("the faults have %d bytes", len(err.Error()))
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > mostAllocated {
				t.Errorf("allocated %d MiB for %d KiB", allocated>>20, len(test.text)>>10)
			} else {
				t.Logf("allocated %d MiB for %d KiB", allocated>>20, len(test.text)>>10)
			}
		})
	}
}

// What people write is far below the limits.
func TestALargeManifestIsRead(t *testing.T) {
	var b strings.Builder
	for i := range 900 {
		fmt.Fprintf(&b, "---\n# volume %d: made by hand, see https://example.org/[a], {b}\napiVersion: v1\nkind: PersistentVolume\nmetadata:\n  name: pv-%d\n"+
			"  labels: {app: \"x, y\", tier: db}\nspec:\n  capacity: {storage: 1Gi}\n  accessModes: [ReadWriteMany]\n  mountOptions:\n  - hard\n  - nfsvers=4.2\n"+
			"  nfs: &n%d\n    path: /volume/nfs/pv%d\n    server: 10.0.0.1\n", i, i, i, i)
	}
	documents, err := strict.Documents([]byte(b.String()))
	if err != nil || len(documents) != 900 {
		t.Errorf("%d documents, %v", len(documents), err)
	}
}
