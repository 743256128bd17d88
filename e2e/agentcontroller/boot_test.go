package agentcontroller

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/api"
)

// The agent is the real program on a machine that has just booted: a time namespace has a boot clock
// of its own. The operation shows when that was, and no status has it.
func TestAnOperationShowsTheBoot(t *testing.T) {
	c := newController(t)
	c.Put(instance, loopback.Workers(func(int, int) string { return server }, 0, 1))
	end := c.Operate(instance, api.OperationRequest{Operation: api.Instantiate})
	began := time.Now()
	// The machine booted two seconds before its agent starts.
	const up = 2 * time.Second
	loopback.Until(t, "the operation is older than the machine", func() bool { return time.Since(began) > 2*up })
	var host unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &host); err != nil {
		t.Fatal(err)
	}
	loopback.StartAgent(t, loopback.AgentOptions{ServerID: server, Config: c.AgentConfig(instance),
		Wrap: []string{"unshare", "--time", "--boottime", fmt.Sprint(int64(up/time.Second) - host.Sec)}})
	if op := c.Outcome(instance, end); op.State != api.Completed {
		t.Fatalf("END: %+v", op)
	}
	out, err := c.Hitchctl("describe", "operation", api.OperationID(instance, end))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^ +Booted .*\n +Enrolled `).Match(out) {
		t.Errorf("the operation does not show the boot before the enrollment:\n%s", out)
	}
	if c.node().Status.Facts.UptimeSeconds != 0 {
		t.Error("a status has the time since the boot, so each report differs")
	}
}
