package jsontree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict/jsontree"
)

func parse(t *testing.T, text string) *jsontree.Node {
	t.Helper()
	n, broken := jsontree.Parse([]byte(text))
	if broken != nil {
		t.Fatalf("%q: %v", text, broken)
	}
	return n
}

const document = " {\"a\" : [1e5, -0.0,true ,null, \"x\\u0041\\\"\"] ,\n\t\"b/~\":{ }, \"a\":\"again\", \"\": [ [ ] ]\r\n} "

func TestATreeKeepsWhatDecodingLoses(t *testing.T) {
	n := parse(t, document)
	var names []string
	for _, m := range n.Members {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, ","); got != "a,b/~,a," {
		t.Errorf("members %q", got)
	}
	var items []string
	for _, item := range n.Members[0].Value.Items {
		items = append(items, fmt.Sprintf("%s %s", item.Kind, item.Text))
	}
	if got := strings.Join(items, "; "); got != `a number 1e5; a number -0.0; a boolean true; null ; a string xA"` {
		t.Errorf("items %q", got)
	}
	if n.Get("a").Text != "again" || n.Get("c") != nil {
		t.Error("of a name given twice, the last is not taken")
	}
}

// TestOffsetsCutOutTheValues parses what each node's offsets cut out again.
func TestOffsetsCutOutTheValues(t *testing.T) {
	for _, text := range []string{document, "7", ` "a" `, "[]", "{}", "[[],{}]", `[{"a":[{"b":null}]},false]`} {
		var visit func(n *jsontree.Node)
		visit = func(n *jsontree.Node) {
			part := text[n.Start:n.End]
			again := parse(t, part)
			if strings.TrimSpace(part) != part || again.Kind != n.Kind || again.Text != n.Text ||
				len(again.Items) != len(n.Items) || len(again.Members) != len(n.Members) {
				t.Errorf("%q: cut out %q", text, part)
			}
			for _, item := range n.Items {
				visit(item)
			}
			for _, m := range n.Members {
				visit(m.Value)
			}
		}
		visit(parse(t, text))
	}
}

func TestWhatIsNoDocument(t *testing.T) {
	for text, word := range map[string]string{
		"": "is empty", " \n": "is empty", "\xff": "not UTF-8", `{"a":1`: "is not whole JSON: it ends at line 1, column 6", "{\n \"a\": \"b\",\n\n": "it ends at line 2, column 10", "{\n \"a\": tru }": "at line 2, column 10",
		"1 2": "after top-level value", "{'a':1}": "line 1, column 2", `[1,]`: "line 1", `{"a":1,}`: "line 1", "\ufeff{}": "line 1", "[01]": "line 1", "NaN": "line 1", "[\"a\nb\"]": "line 2",
		strings.Repeat("[", 101) + strings.Repeat("]", 101): "deeper than 100", strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101): "deeper than 100",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000): "is not JSON",
	} {
		if _, broken := jsontree.Parse([]byte(text)); broken == nil || !strings.Contains(broken.Message, word) || broken.Pointer != "" {
			t.Errorf("%.40q: %v, want %q", text, broken, word)
		}
	}
	if _, broken := jsontree.Parse([]byte("[" + strings.Repeat("[],", jsontree.MaxValues) + "0]")); broken == nil || !strings.Contains(broken.Message, "more than 100000 values") {
		t.Errorf("values without end: %v", broken)
	}
	parse(t, "["+strings.Repeat("0,", jsontree.MaxValues-2)+"0]")
	parse(t, strings.Repeat("[", 100)+strings.Repeat("]", 100))
}

func TestDuplicatesAreFoundAtAnyDepth(t *testing.T) {
	got := parse(t, `{"a":1,"b":[{"c":1,"c":{"d":1,"d":2},"c":3}],"a":{"e/":1,"e/":2},"f":1}`).Duplicates("/at")
	var pointers []string
	for _, f := range got {
		pointers = append(pointers, f.Pointer)
	}
	if want := "/at/a /at/b/0/c /at/b/0/c/d /at/a/e~1"; strings.Join(pointers, " ") != want {
		t.Errorf("got %v, want %s", pointers, want)
	}
}

func TestDuplicatesAreBounded(t *testing.T) {
	text := `{"` + strings.Repeat("k", 10_000) + `":[` + strings.Repeat(`{"a":1,"a":1},`, 10_000) + `0]}`
	if got := parse(t, text).Duplicates(fault.Root); len(got) != 101 || !strings.Contains(got[100].Message, "first 100") {
		t.Errorf("%d faults", len(got))
	}
}

func TestFindGoesAsFarAsThereIsAnything(t *testing.T) {
	n := parse(t, document)
	for at, want := range map[fault.At]string{
		"": "{", "/a": `"again"`, "/b~1~0": "{", "/b~1~0/x/y": "{", "/": "[", "//0": "[", "//0/0": "[", "//7": "[", "//x": "[", "//-1": "[", "/a/0": `"again"`, "/zzz": "{",
	} {
		if got := n.Find(at); !strings.HasPrefix(document[got.Start:got.End], want) {
			t.Errorf("%q is %s", at, document[got.Start:got.End])
		}
	}
}

// FuzzParse asserts that a document is accepted exactly if encoding/json accepts it,
// and that the offsets of the root are those of the value.
func FuzzParse(f *testing.F) {
	f.Add(document)
	f.Add(`{"a":[{"a":1,"a":2}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, broken := jsontree.Parse([]byte(text))
		if broken != nil {
			return
		}
		if !json.Valid([]byte(text)) || strings.Trim(text, " \t\r\n") != text[n.Start:n.End] {
			t.Errorf("%q is taken as %q", text, text[n.Start:n.End])
		}
		_ = n.Duplicates(fault.Root)
	})
}
