package metadata

import "testing"

// For any answer, the result is a server id and a nonce in their grammars, or nothing.
func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{
		`{"uuid": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "meta": {"nodehitch_nonce": "00112233445566778899aabbccddeeff"}}`,
		`{"uuid": "6F1C1D4E-8A5B-4C0E-9D1F-2A3B4C5D6E7F"}`,
		`{"uuid": "6f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e7f", "meta": {"nodehitch_nonce": "0011", "nodehitch_nonce": null}}`,
		`{"uuid": 1, "meta": []}`, `null`, `[]`, `{"meta": {"nodehitch_nonce": "\u0030"}}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := parse(content)
		if err != nil && got != (shown{}) {
			t.Errorf("%+v with %v", got, err)
		}
		if err == nil && !serverGrammar.MatchString(got.serverID) {
			t.Errorf("the server %q", got.serverID)
		}
		if err == nil && got.nonce != "" && !nonceGrammar.MatchString(got.nonce) {
			t.Errorf("the nonce %q", got.nonce)
		}
	})
}
