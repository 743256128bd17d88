package kubeadm

import (
	"cmp"
	"errors"
	"regexp"
	"strings"
	"syscall"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// failedCheck is a line of kubeadm's about a check of the machine that failed.
var failedCheck = regexp.MustCompile(`\[ERROR ([^]]+)\]: `)

// checkReasons are the reasons for kubeadm's checks, by the beginning of a check's name.
var checkReasons = []struct {
	check  string
	reason api.Reason
}{
	{"ImagePull", api.ReasonImageUnavailable},
	{"Port-", api.ReasonPortInUse},
	{"CRI", api.ReasonEngineNotRunning},
	{"Swap", api.ReasonSwapOn},
	{"FileContent-", api.ReasonModuleMissing},
	{"SystemVerification", api.ReasonModuleMissing},
}

// longestSaid is how much of what kubeadm says is repeated.
const longestSaid = 700

// explain turns an error of kubeadm's into the reason of a condition: that of the check that failed,
// or otherwise. doing is what it was run for, such as "joining the cluster".
func explain(doing string, otherwise api.Reason, err error) error {
	var failed *host.CommandError
	if !errors.As(err, &failed) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	lines := meaningful(failed.Output)
	reason := cmp.Or(reasonOf(lines), otherwise)
	said := strings.Join(lines, "; ")
	if said == "" { // it was killed, or took too long
		said = failed.Err.Error()
	}
	return converge.Wait(reason, "%s: kubeadm failed: %s", doing, said)
}

// reasonOf is the reason for the first check of checkReasons that failed, "" if none did.
func reasonOf(lines []string) api.Reason {
	for _, c := range checkReasons {
		for _, line := range lines {
			if found := failedCheck.FindStringSubmatch(line); found != nil && strings.HasPrefix(found[1], c.check) {
				return c.reason
			}
		}
	}
	return ""
}

// panicked is the exit code of a Go program that panics. kubeadm's own for what it refuses are 1 and
// 3.
const panicked = 2

// refused reports whether kubeadm has ended, or was not even started, before it changed anything:
// it says in which phase it has failed, and the first only checks the machine.
func refused(err error) bool {
	const phase = "error execution phase "
	var failed *host.CommandError
	switch {
	case !errors.As(err, &failed):
		return true
	case strings.Contains(failed.Output, phase):
		return failed.Code > 0 && strings.Contains(failed.Output, phase+"preflight")
	}
	return failed.Code > 0 && failed.Code != panicked
}

// logged is the beginning of a line of klog's that is no error.
var logged = regexp.MustCompile(`^[IW]\d{4} `)

// meaningful are the last lines of what kubeadm printed: what its checks say if one failed, else
// the error, without warnings, progress and advice.
func meaningful(output string) []string {
	var checks, rest []string
	for line := range strings.SplitSeq(output, " | ") {
		line = strings.TrimSpace(line)
		switch at := failedCheck.FindStringIndex(line); {
		case at != nil:
			checks = append(checks, line[at[0]:])
		case strings.HasPrefix(line, "error"): // what was printed before is progress and advice
			rest = []string{strings.TrimPrefix(line, "error: ")}
		case line != "" && !strings.HasPrefix(line, "[") && !logged.MatchString(line) && !strings.HasPrefix(line, "To see the stack trace"):
			rest = append(rest, line)
		}
	}
	if len(checks) > 0 {
		rest = checks
	}
	left := longestSaid
	for i := len(rest) - 1; i >= 0; i-- {
		if left -= len(rest[i]); left < 0 {
			rest[i] = "…" + strings.ToValidUTF8(rest[i][-left:], "")
			return rest[i:]
		}
	}
	return rest
}
