package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// format gives the machine a blank volume and follows the agent while it formats it,
// from when it opens the disk until it has reported. Before the step at the agent is
// killed by kill; none = it is left alone. It returns the steps that it took.
func (v *victim) format(ctx context.Context, at step, kill func(pid int)) (path []step, killed bool, err error) {
	v.count++
	blank, err := newVolume(v.site.Lab, v.count)
	if err != nil {
		return nil, false, err
	}
	if err := v.node.Attach(ctx, blank.disk); err != nil {
		return nil, false, err
	}
	device, err := v.node.Exec(ctx, "readlink", "-f", blank.disk.Link())
	if err != nil {
		return nil, false, err
	}
	pid, err := v.agent(ctx)
	if err != nil {
		return nil, false, err
	}
	names := sameNames(strings.TrimSpace(string(device)), blank.disk.VolumeID, blank.name, unit.UnitNamePathEscape(blank.disk.Link()), unit.UnitNamePathEscape(blank.name))
	count := map[boundary]int{}
	seen := func(b boundary) {
		if b.on = names(b.on); len(path) == 0 && b.on != "the volume" {
			return
		}
		if strings.HasPrefix(b.on, "/dev/") {
			return // another device, to read
		}
		count[b]++
		now := step{b, count[b]}
		path = append(path, now)
		if now == at {
			killed = true
			kill(pid)
		}
	}
	attached, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- trace(pid, attached, seen) }()
	select {
	case <-attached:
	case err := <-ended:
		return nil, false, err
	}
	v.volumes = append(v.volumes, blank)
	if _, err := v.announce(ctx); err != nil {
		return nil, false, err
	}
	err = v.awaitReport(ctx, blank, ended, pid)
	if !killed {
		path = upToReport(path)
	}
	return path, killed, err
}

// unfinished is how the name of a file ends that is to replace another one. Its digits are chosen
// anew each time.
var unfinished = regexp.MustCompile(`\.[0-9]+\.new$`)

// sameNames gives each thing a name that it has in every round, whatever the names of its volume
// and the numbers that are chosen anew.
func sameNames(ofVolume ...string) func(string) string {
	var pairs []string
	for _, name := range ofVolume {
		pairs = append(pairs, name, "the volume")
	}
	names := strings.NewReplacer(pairs...)
	return func(name string) string {
		if strings.HasPrefix(name, "socket:") {
			return "a socket"
		}
		return unfinished.ReplaceAllString(names.Replace(name), ".new")
	}
}

// awaitReport waits until the agent has been killed, or kills it when it has finished.
func (v *victim) awaitReport(ctx context.Context, blank *volume, ended <-chan error, pid int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(timeout)
	for {
		select {
		case err := <-ended:
			return err
		case <-limit:
			return errors.Join(errors.New("the agent was neither killed nor done"), unix.Kill(pid, unix.SIGKILL))
		case <-tick.C:
		}
		known, err := client.Read[api.Volume](v.api.GetVolume(ctx, blank.disk.VolumeID, nil))
		if err == nil && known.PermitState == api.PermitFormatted && v.journalPhase(ctx, blank) == "reported" {
			kill(pid) // unless that has been done at this very moment
			return <-ended
		}
	}
}

// killTogether kills the agent with all that it has started, a while after now.
func killTogether(chance *rand.Rand) func(pid int) {
	return func(pid int) {
		after := time.Duration(chance.Int64N(int64(120 * time.Millisecond)))
		time.AfterFunc(after, func() {
			children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
			_ = unix.Kill(pid, unix.SIGSTOP)
			for _, file := range children {
				pids, _ := os.ReadFile(file)
				for _, child := range strings.Fields(string(pids)) {
					if n, err := strconv.Atoi(child); err == nil {
						_ = unix.Kill(n, unix.SIGKILL)
					}
				}
			}
			_ = unix.Kill(pid, unix.SIGKILL)
		})
	}
}
