package upgrade

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// moment is a time of one boot of this machine. It is no time of day, which jumps when the
// machine learns the right one, and it does not advance while the machine is suspended.
type moment struct {
	Boot string        `json:"bootId"`
	At   time.Duration `json:"nanoseconds"`
}

// now is the present moment.
func now() (moment, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return moment{}, fmt.Errorf("reading the boot id: %w", err)
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return moment{}, fmt.Errorf("reading the clock: %w", err)
	}
	return moment{Boot: strings.TrimSpace(string(id)), At: time.Duration(t.Nano())}, nil
}

// after is the moment that is d later.
func (m moment) after(d time.Duration) moment { return moment{Boot: m.Boot, At: m.At + d} }

// left is how long it is from now to m, which is of the same boot.
func (m moment) left(now moment) time.Duration { return m.At - now.At }
