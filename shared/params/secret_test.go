package params_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/shared/params"
)

func TestASecretIsPrintedByNothing(t *testing.T) {
	type hidden struct{ secret params.Secret }
	type shown struct {
		Secret  params.Secret
		Pointer *params.Secret
		Map     map[string]params.Secret
	}
	s := params.NewSecret("hunter2")
	values := []any{s, &s, hidden{s}, &hidden{s}, []hidden{{s}}, shown{s, &s, map[string]params.Secret{"a": s}}, []any{s}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%c", "%t", "%T", "%10s", "%-5v"} {
		for _, v := range values {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, "hunter2") || strings.Contains(got, fmt.Sprintf("%x", "hunter2")) {
				t.Errorf("%s of %T prints %s", verb, v, got)
			}
		}
	}
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(h).Info("x", "secret", s, "pointer", &s, "group", slog.GroupValue(slog.Any("s", s)), "struct", shown{Secret: s})
	}
	asJSON, err := json.Marshal(shown{s, &s, map[string]params.Secret{"a": s}})
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(shown{Secret: s})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{logged.String(), string(asJSON), string(asYAML), fmt.Errorf("%w: %v", fmt.Errorf("x"), s).Error(), fmt.Sprint(s), fmt.Sprintln(s)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("it is in %s", text)
		}
		if !strings.Contains(text, params.Redacted) {
			t.Errorf("nothing stands in its place: %s", text)
		}
	}
}

func TestASecretCannotBeReadBack(t *testing.T) {
	var s params.Secret
	if err := json.Unmarshal([]byte(`"[redacted]"`), &s); err == nil { //nolint:staticcheck // that it fails is the point
		t.Error("a redacted document was read as a secret")
	}
}

func TestWhatASecretIs(t *testing.T) {
	var zero params.Secret
	a, b := params.NewSecret("a"), params.NewSecret("a")
	if !zero.IsZero() || !params.NewSecret("").IsZero() || a.IsZero() {
		t.Error("only the empty text is no secret")
	}
	if zero.Reveal() != "" || a.Reveal() != "a" || fmt.Sprint(zero) != "" {
		t.Error("the text is not what was given")
	}
	if !a.Equal(b) || a.Equal(zero) || a.Equal(params.NewSecret("b")) || !cmp.Equal(a, b) {
		t.Error("secrets compare by their text")
	}
}
