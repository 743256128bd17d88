package peers

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// measurer runs on the machine that is measured, by its clock and its account of CPU
// time; cloud-init's Python is there.
//
//go:embed measure.py
var measurer []byte

// run is what one run of a command took, in seconds, and what it said.
type run struct {
	Wall, CPU float64
	Code      int
	Output    string
}

func (r run) failed(want int) error {
	if r.Code != want {
		return fmt.Errorf("exit code %d", r.Code)
	}
	return nil
}

// measure runs commands in turn, so that other load on the machine affects all of them.
func measure(ctx context.Context, n lab.Node, rounds int, commands map[string][]string) (map[string][]run, error) {
	const script, input = "/root/measure.py", "/root/measure.json"
	asked, err := json.Marshal(commands)
	if err != nil {
		return nil, err
	}
	for path, content := range map[string][]byte{script: measurer, input: asked} {
		if err := n.Push(ctx, path, 0o600, content); err != nil {
			return nil, err
		}
	}
	out, err := n.Exec(ctx, "sh", "-c", `exec python3 -I "$0" "$1" <"$2"`, script, strconv.Itoa(rounds), input)
	if err != nil {
		return nil, err
	}
	var runs map[string][]run
	return runs, json.Unmarshal(out, &runs)
}

// median of what of says of all.
func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func wall(r run) float64 { return r.Wall }
func cpu(r run) float64  { return r.CPU }

// leanest is the name with the least of a quality among peers.
func leanest(runs map[string][]run, of func(run) float64) string {
	names := make([]string, len(theirs))
	for i, c := range theirs {
		names[i] = c.name
	}
	return slices.MinFunc(names, func(a, b string) int { return cmp.Compare(median(runs[a], of), median(runs[b], of)) })
}
