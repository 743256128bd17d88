package powercut

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// moment is when to cut: some time after the machine has reached a phase.
type moment struct {
	// fresh: with another blank volume, the machine being as it should be before.
	fresh bool
	at    phase
	after time.Duration
}

func (m moment) String() string {
	text := fmt.Sprintf("%s+%s", m.at, m.after.Round(time.Millisecond))
	if m.fresh {
		return "fresh:" + text
	}
	return text
}

// aims say for each phase within how much time after it has been reached a cut comes,
// and how many of 20 cuts of a format aim at it. Most are so short that only a cut
// that waits for them hits them.
var aims = [phases]struct {
	within time.Duration
	share  int
}{
	unasked: {8 * time.Second, 3},
	granted: {60 * time.Millisecond, 2},
	started: {time.Second, 3},
	making:  {2 * time.Second, 5},
	made:    {8 * time.Second, 4},
	booting: {8 * time.Second, 0}, // only in later boots
	mounted: {2 * time.Second, 2},
	serving: {time.Second, 1},
	writing: {5 * time.Second, 0}, // only if there is a converged machine
}

// A machine gets this many volumes in its life.
const volumesPerLife = 5

// lives plans cuts: each life is a new machine. Each of its volumes comes blank and is
// hit before it is in use, every other time once more in the boot after that, and
// every other time while records are being written to it.
func lives(chance *rand.Rand, cuts int) [][]moment {
	var deck []phase
	draw := func() phase {
		if len(deck) == 0 {
			for p, aim := range aims {
				deck = append(deck, slices.Repeat([]phase{phase(p)}, aim.share)...)
			}
			chance.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		p := deck[0]
		deck = deck[1:]
		return p
	}
	var all [][]moment
	for left := cuts; left > 0; {
		var life []moment
		for range volumesPerLife {
			first := draw()
			life = append(life, moment{fresh: true, at: first, after: within(chance, first)})
			if chance.IntN(2) == 0 {
				second := max(first, []phase{making, made, booting, booting}[chance.IntN(4)])
				life = append(life, moment{at: second, after: within(chance, second)})
			}
			if chance.IntN(2) == 0 {
				life = append(life, moment{at: writing, after: within(chance, writing)})
			}
		}
		life = life[:min(len(life), left)]
		left -= len(life)
		all = append(all, life)
	}
	return all
}

func within(chance *rand.Rand, p phase) time.Duration {
	return time.Duration(chance.Int64N(int64(aims[p].within)))
}

// few is the plan of a short run: the two most important moments of a format, and after
// each one while records are written.
func few(chance *rand.Rand) [][]moment {
	var all [][]moment
	for _, p := range []phase{started, making} {
		all = append(all, []moment{{fresh: true, at: p, after: within(chance, p)}, {at: writing, after: within(chance, writing)}})
	}
	return all
}

// planned is how many cuts a plan has.
func planned(plan [][]moment) (n int) {
	for _, life := range plan {
		n += len(life)
	}
	return n
}

// ofWriting is how many moments of a plan are while records are written.
func ofWriting(plan [][]moment) (n int) {
	for _, life := range plan {
		for _, m := range life {
			if m.at == writing {
				n++
			}
		}
	}
	return n
}

// tally is the result of the cuts of a life, or of all lives.
type tally struct {
	hits             [phases]int
	whileWriting     int
	idle             int   // came when all was served and nothing was written
	lost, cached     int64 // bytes of write caches
	boots, converged []time.Duration
}

func (t *tally) join(other tally) {
	for p, n := range other.hits {
		t.hits[p] += n
	}
	t.whileWriting += other.whileWriting
	t.lost += other.lost
	t.cached += other.cached
	t.boots = append(t.boots, other.boots...)
	t.converged = append(t.converged, other.converged...)
}

// histogram is how many cuts hit each phase.
func (t *tally) histogram() string {
	var parts []string
	for p, n := range t.hits {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", phase(p), n))
		}
	}
	return strings.Join(parts, ", ")
}

func (t *tally) cuts() (sum int) {
	for _, n := range t.hits {
		sum += n
	}
	return sum
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

func TestThePlanOfCuts(t *testing.T) {
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 0))
		cuts, fresh := 0, 0
		var aimed [phases]int
		for _, life := range lives(chance, fullCuts) {
			if !life[0].fresh {
				t.Errorf("a life begins with %v", life[0])
			}
			blank := 0
			for _, m := range life {
				cuts++
				aimed[m.at]++
				if m.fresh {
					blank++
				}
			}
			if blank > volumesPerLife {
				t.Errorf("a machine has %d volumes", blank)
			}
			fresh += blank
		}
		if cuts != fullCuts {
			t.Errorf("%d cuts", cuts)
		}
		for _, p := range []phase{granted, started, making, made, booting, writing} {
			if aimed[p] < 2 {
				t.Errorf("seed %d: of %d cuts %d aim at %s: %v", seed, cuts, aimed[p], p, aimed)
			}
		}
		if fresh < fullCuts/3 {
			t.Errorf("seed %d: %d blank volumes", seed, fresh)
		}
	}
}
