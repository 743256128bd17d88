package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// stage is how far a machine's work is in the present boot.
type stage int

// A work that cuts aim at has three stages.
const (
	idle stage = iota // not begun, or not again
	first
	second
	third
	done
)

// target is such a work. Its clock is the CPU time of the machine, which hardly depends on what
// else the host does.
type target struct {
	chance *rand.Rand
	lab    *lab.Lab
	node   lab.Node
	// names are those of the stages.
	names [done + 1]string
	// at is the present stage, by what the machine has said.
	at func(context.Context) (stage, error)
	// now is the stage at the last look, which began at since.
	now   stage
	since time.Duration
	// takes is how long a stage took when it was last seen to its end.
	takes [done + 1]time.Duration
	// hits are how many cuts hit each stage.
	hits [done + 1]int
	// early is how often the work was over before the moment of the cut.
	early int
}

// glance is the time between two looks.
const glance = 10 * time.Millisecond

// look asks for the present stage and returns the clock.
func (a *target) look(ctx context.Context) (clock time.Duration, err error) {
	at, err := a.at(ctx)
	clock, failed := a.lab.CPUTime(a.node)
	if err := errors.Join(err, failed); err != nil || at == a.now {
		return clock, err
	}
	if at == a.now+1 {
		a.takes[a.now] = clock - a.since
	}
	a.now, a.since = at, clock
	return clock, nil
}

// reach waits until the work has come to a stage, or further.
func (a *target) reach(ctx context.Context, want stage) error {
	return a.until(ctx, "the work to be in "+a.names[want], glance, func() error {
		_, err := a.look(ctx)
		if err == nil && a.now < want {
			err = errors.New("it is in " + a.names[a.now])
		}
		return err
	})
}

// moment waits for the moment of a cut: in the stage that was hit least of those that are left,
// when a random part of what the stage takes is over. If the stage is over before, that is the
// moment. It returns false if the work is over, so that there is nothing to cut.
func (a *target) moment(ctx context.Context) (bool, error) {
	_, err := a.look(ctx)
	if err == nil && a.now != done {
		err = a.reach(ctx, a.least(max(a.now, first)))
	}
	if err != nil {
		return false, err
	}
	// The square makes early moments the likelier ones: the stage may be shorter this time.
	aim, part := a.now, a.chance.Float64()
	after := a.since + time.Duration(part*part*float64(a.takes[aim]))
	err = a.until(ctx, "the moment of a cut in "+a.names[aim], glance, func() error {
		clock, err := a.look(ctx)
		if err == nil && a.now <= aim && clock < after {
			err = fmt.Errorf("the machine has worked %s of %s", clock-a.since, after-a.since)
		}
		return err
	})
	if a.now == done {
		a.early++
	}
	return a.now != done, err
}

// through makes so many cuts: one in each work that begin begins, and one more in the boot after
// that, if the work is not over by then.
func (a *target) through(ctx context.Context, cuts int, begin, cut func(context.Context) error) error {
	for a.cuts() < cuts {
		if err := begin(ctx); err != nil {
			return fmt.Errorf("after cut %d: %w", a.cuts(), err)
		}
		for range min(2, cuts-a.cuts()) {
			work, err := a.moment(ctx)
			if err == nil && a.early > cuts/2 {
				err = fmt.Errorf("the work was over before its cut %d times", a.early)
			}
			if err == nil && work {
				err = cut(ctx)
			}
			if err != nil {
				return fmt.Errorf("cut %d: %w", a.cuts(), err)
			}
			if !work {
				break
			}
		}
	}
	return nil
}

// least is the stage that was hit least, from one on; the earliest of several, so that the boot
// after the cut comes to the others.
func (a *target) least(from stage) stage {
	least := from
	for s := from + 1; s <= third; s++ {
		if a.hits[s] < a.hits[least] {
			least = s
		}
	}
	return least
}

// count counts a cut by what it has hit.
func (a *target) count(ctx context.Context) (hit stage, err error) {
	if hit, err = a.at(ctx); err == nil {
		a.hits[hit]++
	}
	a.now, a.since = idle, 0 // a boot begins
	return hit, err
}

func (a *target) cuts() (n int) {
	for _, hits := range a.hits {
		n += hits
	}
	return n
}

// enough fails if too few cuts hit one of the stages, or too many none.
func (a *target) enough() error {
	for s := first; s <= third; s++ {
		if least := max(1, a.cuts()/5); a.hits[s] < least {
			return fmt.Errorf("cuts: %s; expected at least %d in %s", a, least, a.names[s])
		}
	}
	if missed := a.hits[idle] + a.hits[done]; missed > a.cuts()/5 {
		return fmt.Errorf("cuts: %s; expected that at most %d miss the work", a, a.cuts()/5)
	}
	return nil
}

// String is how many cuts hit each stage.
func (a *target) String() string {
	var parts []string
	for s, hits := range a.hits {
		parts = append(parts, fmt.Sprintf("%s %d", a.names[s], hits))
	}
	return strings.Join(parts, ", ")
}

// lengths is how long each stage took at last.
func (a *target) lengths() string {
	var parts []string
	for s := first; s <= third; s++ {
		parts = append(parts, fmt.Sprintf("%s %.1f s", a.names[s], a.takes[s].Seconds()))
	}
	return strings.Join(parts, ", ")
}

// until calls wrong until it returns no error.
func (a *target) until(ctx context.Context, what string, every time.Duration, wrong func() error) error {
	ctx, cancel := patience(ctx, a.lab, a.node)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := wrong()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}

// strictRoot makes a power cut take from the machine's root disk what was not flushed. By
// default ext4 flushes a file that takes the name of another one, which hides a missing fsync.
// Other filesystems do not.
func strictRoot(ctx context.Context, node lab.Node) error {
	_, err := node.Exec(ctx, "sh", "-euc", `tune2fs -E mount_opts=noauto_da_alloc /dev/vda
mount -o remount,noauto_da_alloc /
findmnt --noheadings --output OPTIONS / | grep -w noauto_da_alloc`)
	return err
}
