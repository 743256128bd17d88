package loopback

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what the controller's process takes of its machine.
type Usage struct {
	// Resident and Peak are bytes of memory, now and at most since the start.
	Resident, Peak int64
	// Mapped are those of Resident that are pages of files: the store and the program. The
	// kernel takes them back without writing when others need the memory.
	Mapped int64
	// CPU is the processor time since the start, of all cores.
	CPU time.Duration
	// Files are its open file descriptors.
	Files int
}

// clockTick is the unit of times in /proc; Linux has had no other for decades.
const clockTick = 10 * time.Millisecond

// Usage of the running process.
func (c *Controller) Usage() Usage {
	c.t.Helper()
	u, err := UsageOf(c.PID())
	if err != nil {
		c.t.Fatal(err)
	}
	return u
}

// UsageOf a process of this machine.
func UsageOf(pid int) (u Usage, err error) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.Resident = kib << 10
		case "VmHWM":
			u.Peak = kib << 10
		case "RssFile":
			u.Mapped = kib << 10
		}
	}
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return u, err
	}
	// What follows the name, which may hold anything, in its last parenthesis.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime
		ticks, _ := strconv.ParseInt(field, 10, 64)
		u.CPU += time.Duration(ticks) * clockTick
	}
	open, err := os.ReadDir(proc + "fd")
	u.Files = len(open)
	return u, err
}

// Metrics are what the controller offers to Prometheus, by name and labels as they
// stand there; it needs the setting metricsListen.
func (c *Controller) Metrics() (map[string]float64, error) {
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+c.o.Settings["metricsListen"]+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	metrics := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil && at > 0 {
			metrics[lines.Text()[:at]] = value
		}
	}
	return metrics, nil
}
