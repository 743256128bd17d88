package enrollment

import (
	"fmt"
	"testing"
)

// What the first server of an instance costs does not grow with the number of
// instances, once one server of any of them has come. Reading an instance allocates.
func TestATokenIsFoundWithoutReadingAllInstances(t *testing.T) {
	const few, many = 5, 100
	cost := map[int]float64{}
	for _, instances := range []int{few, many} {
		w := newWorld(t)
		var tokens []string
		for i := range instances {
			id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
			w.newInstance(id)
			tokens = append(tokens, w.token(id))
		}
		redeemed := 0
		redeem := func() {
			if _, ok, err := w.instanceOf(tokens[redeemed]); !ok || err != nil {
				t.Fatalf("token %d: %v, %v", redeemed, ok, err)
			}
			redeemed++
		}
		redeem()
		cost[instances] = testing.AllocsPerRun(few-2, redeem)
	}
	if cost[many] > 1.5*cost[few] {
		t.Errorf("the token of an instance whose servers never enrolled costs %.0f allocations among %d instances, and %.0f among %d",
			cost[many], many, cost[few], few)
	}
}
