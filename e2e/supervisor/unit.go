package supervisor

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/sourcetree"
)

// unit is what nodehitch-agent.service says, as far as it is about starting and restarting.
type unit struct {
	environment []string
	pre, start  []string
	// mayFail is the - before the command of ExecStartPre.
	mayFail                               bool
	restart, watchdog, starting, stopping time.Duration
}

// installed is where the unit expects the agent.
const installed = "/usr/local/bin/"

// read reads the unit that `nodehitch-agent install` writes, for an agent in another
// directory.
func read(directory string) (unit, error) {
	f, err := os.Open(sourcetree.Path("agent/machine/install/nodehitch-agent.service"))
	if err != nil {
		return unit{}, err
	}
	defer f.Close()
	var u unit
	times := map[string]*time.Duration{"RestartSec": &u.restart, "WatchdogSec": &u.watchdog, "TimeoutStartSec": &u.starting, "TimeoutStopSec": &u.stopping}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		value = strings.ReplaceAll(value, installed, directory+"/")
		switch name {
		case "Environment":
			u.environment = append(u.environment, value)
		case "ExecStartPre":
			value, u.mayFail = strings.CutPrefix(value, "-")
			u.pre = strings.Fields(value)
		case "ExecStart":
			u.start = strings.Fields(value)
		case "RestartSec", "WatchdogSec", "TimeoutStartSec", "TimeoutStopSec":
			if *times[name], err = time.ParseDuration(value); err != nil {
				return u, err
			}
		}
	}
	lasting := !slices.Contains([]time.Duration{u.restart, u.watchdog, u.starting, u.stopping}, 0)
	if u.pre == nil || !u.mayFail || u.start == nil || !lasting {
		return u, fmt.Errorf("the unit lacks something that the supervisor does: %+v", u)
	}
	return u, nil
}
