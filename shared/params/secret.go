package params

import (
	"fmt"
	"log/slog"
)

// Redacted is what stands in the place of a secret wherever one is printed.
const Redacted = "[redacted]"

// Secret is a text that must not be printed: every way to format, log or
// marshal it gives Redacted, or nothing if no secret is set. The text sits
// behind a pointer because fmt prints the unexported fields of other structs
// without asking their methods. There is no unmarshalling on purpose, or a
// redacted document could be read back.
type Secret struct{ text *string }

// NewSecret makes a secret of text; the empty text is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal is the text. Each call is a place to look at in a review.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether no secret is set; encoding/json's omitzero asks it.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal compares the texts (== compares addresses). It is not constant in time.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String is Redacted, or empty if no secret is set.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return Redacted
}

// GoString is String in quotes, for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("params.Secret(%q)", s.String()) }

// Format prints String for every verb but %#v, %d and %x included.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'v' && f.Flag('#') {
		text = s.GoString()
	}
	_, _ = f.Write([]byte(text))
}

// MarshalText gives String to encoders of text, JSON and YAML among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON gives String to encoding/json.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// LogValue gives String to slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
