package replicas

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The checker accepts histories that are right and refuses those that are not.
func TestModels(t *testing.T) {
	write := func(value string) (any, any) { return register{"i", value}, "" }
	read := func(value string) (any, any) { return register{"i", ""}, value }
	says := func(phase api.FormatPhase, permit string, a answer) (any, any) { return message{"v", phase, permit}, a }
	wanted := func(a answer) (any, any) { return says(api.FormatWanted, "", a) }
	given := func(permit string) answer { return answer{permit, done} }
	refused, lost := answer{outcome: not}, answer{outcome: unknown}
	for _, c := range []struct {
		name  string
		model porcupine.Model
		want  porcupine.CheckResult
		// calls come one after the other; one without an answer may be done at any time since.
		calls func(add func(input, output any), open func(input, output any))
	}{
		{"a read sees the last write", registerModel, porcupine.Ok, func(add, _ func(any, any)) {
			add(write("a"))
			add(write("b"))
			add(read("b"))
		}},
		{"a stale read", registerModel, porcupine.Illegal, func(add, _ func(any, any)) {
			add(write("a"))
			add(write("b"))
			add(read("a"))
		}},
		{"a lost write", registerModel, porcupine.Illegal, func(add, _ func(any, any)) {
			add(write("a"))
			add(read(""))
		}},
		{"an unknown write comes late", registerModel, porcupine.Ok, func(add, open func(any, any)) {
			open(write("a"))
			add(write("b"))
			add(read("b"))
			add(read("a"))
		}},
		{"an unknown write comes twice", registerModel, porcupine.Illegal, func(add, open func(any, any)) {
			open(write("a"))
			add(write("b"))
			add(read("a"))
			add(write("c"))
			add(read("a"))
		}},
		{"one permit, and its answer again", permitModel, porcupine.Ok, func(add, _ func(any, any)) {
			add(wanted(given("p")))
			add(wanted(given("p")))
			add(says(api.FormatStarted, "p", given("p")))
			add(says(api.FormatFormatted, "p", given("p")))
			add(wanted(refused))
		}},
		{"two permits", permitModel, porcupine.Illegal, func(add, _ func(any, any)) {
			add(wanted(given("p")))
			add(wanted(given("q")))
		}},
		{"a permit after the format", permitModel, porcupine.Illegal, func(add, _ func(any, any)) {
			add(wanted(given("p")))
			add(says(api.FormatStarted, "p", given("p")))
			add(says(api.FormatFormatted, "p", given("p")))
			add(wanted(given("p")))
		}},
		{"the answer with the permit was lost", permitModel, porcupine.Ok, func(add, open func(any, any)) {
			open(wanted(lost))
			add(wanted(given("p")))
			add(says(api.FormatStarted, "p", given("p")))
		}},
		{"a format that was acknowledged is not known", permitModel, porcupine.Illegal, func(add, _ func(any, any)) {
			add(wanted(given("p")))
			add(says(api.FormatStarted, "p", given("p")))
			add(says(api.FormatFormatted, "p", given("p")))
			add(says(api.FormatStarted, "p", given("p")))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []porcupine.Operation
			add := func(ends bool) func(input, output any) {
				return func(input, output any) {
					at := int64(2 * len(all))
					o := porcupine.Operation{ClientId: len(all), Input: input, Output: output, Call: at, Return: at + 1}
					if !ends {
						o.Return = math.MaxInt64
					}
					all = append(all, o)
				}
			}
			c.calls(add(true), add(false))
			if got := porcupine.CheckOperationsTimeout(c.model, all, 0); got != c.want {
				t.Errorf("the checker says %s, expected %s", got, c.want)
			}
		})
	}
}
