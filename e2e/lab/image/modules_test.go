package image

import (
	"bytes"
	"testing"
)

func TestSignaturesAreTakenOffModules(t *testing.T) {
	signature := append(bytes.Repeat([]byte{7}, 300), make([]byte, signedDescription)...)
	signature[len(signature)-2], signature[len(signature)-1] = 300>>8, 300&0xff
	signed := append(append([]byte("\x7fELF module"), signature...), signedMark...)
	for name, c := range map[string]struct {
		module, bare string
		fails        bool
	}{
		"signed":             {string(signed), "\x7fELF module", false},
		"not signed":         {"\x7fELF module", "\x7fELF module", false},
		"too short":          {signedMark, "", true},
		"longer than itself": {string(signed[200:]), "", true},
	} {
		bare, err := unsigned([]byte(c.module))
		if string(bare) != c.bare || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, bare, err)
		}
	}
}
