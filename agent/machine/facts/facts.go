// Package facts collects what people want to know about a node's machine: names and
// versions. No decision depends on them.
package facts

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// Collect reads them; what cannot be read stays empty.
func Collect() api.Facts {
	f := api.Facts{AgentVersion: version.Version, Architecture: runtime.GOARCH}
	f.Hostname, _ = os.Hostname()
	var uname unix.Utsname
	if unix.Uname(&uname) == nil {
		f.KernelVersion = unix.ByteSliceToString(uname.Release[:])
	}
	bootID, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	f.BootID = strings.TrimSpace(string(bootID))
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} { // os-release(5)
		if content, err := os.ReadFile(path); err == nil {
			f.OSImage = prettyName(string(content))
			break
		}
	}
	return f
}

// UptimeSeconds is how long ago the machine booted, time in suspend included; 0 if the kernel does
// not say it.
func UptimeSeconds() int64 {
	var since unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil {
		return 0
	}
	return since.Sec
}

// prettyName is PRETTY_NAME of an os-release file.
func prettyName(content string) string {
	for line := range strings.Lines(content) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME=")
		if !ok {
			continue
		}
		if unquoted, err := strconv.Unquote(value); err == nil {
			return unquoted
		}
		return strings.Trim(value, `'"`)
	}
	return ""
}
