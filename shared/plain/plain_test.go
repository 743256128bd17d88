package plain_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/plain"
)

// harmful are characters that do something, one of each kind.
const harmful = "\x1b[2J\r\b\x00\x7f\u009b31m\u202e\u2066\u200f\u200b\ufeff\u2028\U000e0041\xff"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain: \tä 語 👍\nnext": "plain: \tä 語 👍\nnext",
		harmful:                "?[2J?????31m????????",
		"a\ufffeb":             "a?b",
	} {
		if got := plain.Text(text); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
	if got, want := plain.Line(" a\r\nb\t\x1b  c\u2028d"), "a b ? c d"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

// Every text counts, wherever it is; a value that is shared and has none is not written to.
func TestStrings(t *testing.T) {
	type inner struct{ Text, Safe string }
	type outer struct {
		inner
		Named  plainText
		List   []inner
		To     *inner
		None   *inner
		At     time.Time
		Number int
	}
	now := time.Now()
	v := outer{Named: "a\x1b", List: []inner{{"b\u202e", "safe"}}, To: &inner{Text: "c\x00"}, At: now}
	if !plain.Strings(&v) || plain.Strings(&v) {
		t.Error("the first call changes it, the second does not")
	}
	want := outer{Named: "a?", List: []inner{{"b?", "safe"}}, To: &inner{Text: "c?"}, At: now}
	if diff := cmp.Diff(want, v, cmp.AllowUnexported(outer{})); diff != "" {
		t.Error(diff)
	}
}

type plainText string

func TestJSONKeepsTheValue(t *testing.T) {
	value := map[string]string{"a" + harmful[:len(harmful)-1]: "b\ufffe" + harmful[:len(harmful)-1]}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	escaped := plain.JSON(text)
	var back map[string]string
	if err := json.Unmarshal(escaped, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value, back); diff != "" {
		t.Error(diff)
	}
	if plain.Text(string(escaped)) != string(escaped) || bytes.Equal(text, escaped) {
		t.Errorf("%q", escaped)
	}
}
