package serve

import (
	"slices"
	"testing"
)

// A replica comes from a stage to those alone that may follow it.
func TestStages(t *testing.T) {
	all := []stage{standby, reading, uncertified, serving, cutOff, opening, leading}
	for _, c := range []struct {
		from stage
		to   []stage
	}{
		{standby, []stage{reading, opening}},
		{reading, []stage{uncertified, opening}},
		{uncertified, []stage{serving, opening}},
		{serving, []stage{cutOff, opening}},
		{cutOff, []stage{serving, opening}},
		{opening, []stage{leading}},
		{leading, nil},
	} {
		for _, next := range all {
			s := &states{now: state{stage: c.from, because: "in the old stage"}}
			err := s.enter(next, "in the new stage")
			got, want := s.get(), state{stage: next, because: "in the new stage"}
			if allowed := slices.Contains(c.to, next); allowed != (err == nil) {
				t.Errorf("%s, then %s: %v", c.from, next, err)
			}
			if err != nil {
				want = state{stage: c.from, because: "in the old stage"}
			}
			if got != want {
				t.Errorf("%s, then %s: the state is %+v, expected %+v", c.from, next, got, want)
			}
		}
	}
}
