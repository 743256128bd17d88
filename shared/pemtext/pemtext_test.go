package pemtext_test

import (
	"bytes"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/pemtext"
)

// block is a block whose content is its name.
func block(name string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(name)}))
}

func TestEveryBlockIsReadOrNamed(t *testing.T) {
	const mark = "\ufeff"
	a, b, c := block("a"), block("b"), block("c")
	joined := strings.ReplaceAll(a+b+c, "-----\n-----", "----------")
	for name, test := range map[string]struct{ text, want, fault string }{
		"none":                           {"hello", "", ""},
		"three":                          {a + b + c, "abc", ""},
		"text before and between":        {"# ours\n" + a + "\ntheirs:\n" + b, "ab", ""},
		"joined without a line break":    {joined, "abc", ""},
		"no line break at the end":       {strings.TrimSpace(a), "a", ""},
		"a byte order mark":              {mark + a + b, "ab", ""},
		"of each of the files":           {mark + a + mark + b, "ab", ""},
		"of a file that is joined":       {mark + strings.TrimSpace(a) + mark + b, "ab", ""},
		"indented":                       {"  " + a + b, "ab", ""},
		"line breaks of Windows":         {strings.ReplaceAll(a+b, "\n", "\r\n"), "ab", ""},
		"the first is cut off":           {a[:len(a)-30] + "\n" + b, "", "number 1 in line 1, that is damaged or cut off"},
		"the second has no base64":       {a + strings.Replace(b, "Yg==", "Yg!=", 1) + c, "", "number 2 in line 4"},
		"the last is cut off":            {a + b[:20], "", "number 2"},
		"something behind the last line": {strings.TrimSpace(a) + " # ours\n" + b, "", "number 1"},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, err := pemtext.Blocks([]byte(test.text))
			var got string
			for _, each := range blocks {
				got += string(each.Bytes)
			}
			if got != test.want || (test.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("read %q (%v), want %q (%s)", got, err, test.want, test.fault)
			}
			if err != nil {
				return
			}
			normal, err := pemtext.Normal([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			got = ""
			for each, rest := pem.Decode(normal); each != nil; each, rest = pem.Decode(rest) {
				got += string(each.Bytes)
			}
			if got != test.want {
				t.Errorf("Go reads %q of the normal text, want %q:\n%s", got, test.want, normal)
			}
		})
	}
	text := []byte("# ours\n" + a)
	if normal, err := pemtext.Normal(text); err != nil || !bytes.Equal(normal, text) {
		t.Errorf("a text that Go reads became %q (%v)", normal, err)
	}
}
