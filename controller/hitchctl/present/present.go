// Package present shows the API's objects to people: as rows of tables, in full
// with what each reason means and what to do, and as the progress of what is
// being waited for.
package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
)

// none is shown if there is nothing else to show.
const none = "-"

// Age is a duration as people say it: two units at most.
func Age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Typed is a duration as people type it: 25h, not 25h0m0s.
func Typed(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if rest, found := strings.CutSuffix(text, zero); found {
			text = rest + zero[:1]
		}
	}
	return text
}

// since is the age of a moment, none for nil.
func since(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return none
	}
	return Age(now.Sub(*t))
}

// Size is a number of bytes in binary units.
func Size(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if value == float64(int64(value)) {
		return fmt.Sprintf("%d %ciB", int64(value), units[unit])
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// Short is the beginning of an id by which commands know it again.
func Short(id string) string {
	if first, _, ok := strings.Cut(id, "-"); ok && len(first) >= 8 {
		return first
	}
	return id
}

// ShortOperation is the id of an operation with that of its instance shortened.
func ShortOperation(o api.Operation) string {
	return api.OperationID(Short(o.VnfInstanceID), o.Sequence)
}

// ordered are the conditions as a node goes through them, Ready at the end.
func ordered(conditions []api.Condition) []api.Condition {
	order := []string{api.ConditionVolumesMounted, api.ConditionExportsServed}
	rank := func(c api.Condition) int {
		if c.Type == api.ConditionReady {
			return len(order) + 1
		}
		if i := slices.Index(order, c.Type); i >= 0 {
			return i
		}
		return len(order)
	}
	conditions = slices.Clone(conditions)
	slices.SortStableFunc(conditions, func(a, b api.Condition) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.Type, b.Type)
	})
	return conditions
}

// conditionsOf are those of a node, none if it has not reported.
func conditionsOf(n api.Node) []api.Condition {
	if n.Status == nil {
		return nil
	}
	return ordered(n.Status.Conditions)
}

// Why says in one line what stands between a node and Ready, or what it is doing.
func Why(n api.Node) string {
	if n.State == api.NodeExpected {
		return "its agent has not enrolled yet"
	}
	if n.Status != nil && n.Status.Activity != nil {
		return n.Status.Activity.Summary
	}
	for _, c := range conditionsOf(n) {
		if c.Status != api.ConditionTrue && c.Type != api.ConditionReady {
			return reasonAndMessage(c.Reason, c.Message)
		}
	}
	for _, w := range n.Withheld {
		return reasonAndMessage(w.Reason, w.Message)
	}
	if n.State == api.NodeRevoked {
		return "its identity is revoked; `hitchctl node reenroll` lets it enroll again"
	}
	if n.Status == nil {
		return "it has enrolled and not reported yet"
	}
	if !n.Ready && n.Generation > n.Status.AppliedGeneration {
		return fmt.Sprintf("it has applied generation %d, the present one is %d", n.Status.AppliedGeneration, n.Generation)
	}
	return ""
}

func reasonAndMessage(reason api.Reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

func conditionStyle(status api.ConditionStatus) screen.Style {
	switch status {
	case api.ConditionTrue:
		return screen.Good
	case api.ConditionFalse:
		return screen.Bad
	}
	return screen.Waiting
}

func stateStyle(s api.NodeState) screen.Style {
	switch s {
	case api.NodeEnrolled:
		return screen.Good
	case api.NodeLost, api.NodeRevoked:
		return screen.Bad
	}
	return screen.Waiting
}

func operationStyle(s api.OperationState) screen.Style {
	switch s {
	case api.Completed:
		return screen.Good
	case api.Failed:
		return screen.Bad
	}
	return screen.Waiting
}

// Problem is the title of a problem, and its name, which the documentation explains.
func Problem(p api.Problem) string {
	return p.Title + " (" + strings.TrimPrefix(p.Type, api.ProblemPrefix) + ")"
}

// Truth is how a yes or no is shown.
func Truth(yes bool) string {
	if yes {
		return "True"
	}
	return "False"
}

func yesNo(yes bool) screen.Cell {
	if yes {
		return screen.Cell{Text: Truth(yes), Style: screen.Good}
	}
	return screen.Cell{Text: Truth(yes), Style: screen.Bad}
}
