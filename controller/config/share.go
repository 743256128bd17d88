package config

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Share is a number of things, or a percentage of them, as Kubernetes has it: 5, "10%".
type Share string

var share = regexp.MustCompile(`^([1-9][0-9]{0,5}|[1-9][0-9]?%|100%)$`)

var errNotAShare = errors.New(`expected a number from 1, such as 5, or a percentage from 1% to 100%`)

// UnmarshalJSON takes a number and a text; what neither is fails when it is validated.
func (s *Share) UnmarshalJSON(value []byte) error {
	text := string(value)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
	}
	if text != "null" {
		*s = Share(text)
	}
	return nil
}

func (s Share) validate() error {
	if !share.MatchString(string(s)) {
		return errNotAShare
	}
	return nil
}

// Of is how many of all things that is: a percentage is rounded down, and is one at least.
func (s Share) Of(all int) int {
	percent, isPercentage := strings.CutSuffix(string(s), "%")
	n, _ := strconv.Atoi(percent) // a valid one is a number
	if isPercentage {
		n = max(1, all*n/100)
	}
	return n
}
