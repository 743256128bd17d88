package converge_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
)

var storageDoc = &api.NodeConfig{APIVersion: api.NodeConfigV1, Generation: 7, Role: api.RoleStorage, Storage: &api.StorageSection{}}

func TestASectionThatNoStepDoesAnythingAboutIsNotReady(t *testing.T) {
	mounted, served := step(api.ConditionVolumesMounted), step(api.ConditionExportsServed)
	idle := step(api.ConditionExportsServed)
	idle.handOff = true
	for name, c := range map[string]struct {
		steps []converge.Step
		ready bool
	}{
		"both steps":       {[]converge.Step{mounted, served}, true},
		"a step missing":   {[]converge.Step{mounted}, false},
		"a step hands off": {[]converge.Step{mounted, idle}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := converge.New(c.steps...).Converge(t.Context(), storageDoc, converge.Options{})
			exports := r.Condition(api.ConditionExportsServed)
			if exports == nil || (exports.Status == api.ConditionTrue) != c.ready {
				t.Errorf("ExportsServed is %+v, want it True: %v", exports, c.ready)
			}
			if got := r.Condition(api.ConditionReady).Status == api.ConditionTrue; got != c.ready || r.Converged() != c.ready {
				t.Errorf("Ready %v, converged %v; want both %v", got, r.Converged(), c.ready)
			}
			if !c.ready && (exports.Reason != api.ReasonInvalidDocument || r.FailedCondition != api.ConditionExportsServed) {
				t.Errorf("ExportsServed is %+v, failed %q; want InvalidDocument, which a person has to see to", exports, r.FailedCondition)
			}
		})
	}
}

// The controller refuses a status with a longer message, and so all that it says.
func TestAMessageIsNoLongerThanAStatusMayHave(t *testing.T) {
	for name, text := range map[string]string{
		"short": "é", "as long as it may be": strings.Repeat("é", api.LongestMessage), "longer": strings.Repeat("é", api.LongestMessage+1),
	} {
		t.Run(name, func(t *testing.T) {
			s := step("A")
			s.planErr = errors.New(text)
			r := pass(t, converge.Options{}, s)
			c := r.Condition("A")
			whole, isCut := strings.CutSuffix(c.Message, " … (cut)")
			if n := utf8.RuneCountInString(c.Message); n > api.LongestMessage || isCut != (name == "longer") || !utf8.ValidString(c.Message) || !strings.HasPrefix(text, whole) {
				t.Errorf("the message of %d characters has %d, the mark %v", utf8.RuneCountInString(text), n, isCut)
			}
		})
	}
}
