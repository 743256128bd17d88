package cases

import "context"

// stepFunc does what a step says; the runner checks what it expects.
type stepFunc = func(*run, context.Context, Step) error

// families are all steps by the name that they have in case.yaml. Each file
// steps_*_test.go has a family and adds it here.
var families = map[string]stepFunc{}

// add adds a family; `var _ = add(…)` runs before any test. Two steps of one name
// are a programming error.
func add(family map[string]stepFunc) bool {
	for name, do := range family {
		if _, taken := families[name]; taken {
			panic("two steps are called " + name)
		}
		families[name] = do
	}
	return true
}
