// Package describe decides in which words an object of the API is described to an operator, and
// whether that is good or bad news: on the terminal and on the status page alike. Commands stand
// in backquotes.
package describe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodehitch/nodehitch/shared/api"
)

// None is shown if there is nothing else to show.
const None = "-"

// Tone is what news is like.
type Tone int

// The tones: Plain is neither good nor bad, Waiting what may still become good.
const (
	Plain Tone = iota
	Good
	Bad
	Waiting
)

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

// Precise is Age with milliseconds, and tenths of the first seconds.
func Precise(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return Age(d)
}

// Relative is a moment as seen at another one: "5m ago", "in 2h".
func Relative(at, now time.Time) string {
	if at.After(now) {
		return "in " + Age(at.Sub(now))
	}
	return Age(now.Sub(at)) + " ago"
}

// RelativeMinute is Relative of a past moment that is known to the minute: "<1m ago", "5m ago".
func RelativeMinute(at, now time.Time) string {
	switch d := now.Sub(at); {
	case d < time.Minute:
		return "<1m ago"
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	}
	return Relative(at, now)
}

// Moment is a time in UTC, to the second.
func Moment(at time.Time) string { return at.UTC().Format(time.DateTime + "Z") }

// TokenEnd says until when an API token is good.
func TokenEnd(t api.Token) string {
	if t.ExpiresAt == nil {
		return "has no end"
	}
	return "is good until " + Moment(*t.ExpiresAt)
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

// InstanceName is the name of an instance beside the beginning of its id, which tells it from
// another one of that name.
func InstanceName(name, id string) string { return NameAndID(name, Short(id)) }

// NameAndID is how texts write an object that may have a name.
func NameAndID(name, id string) string {
	if name == "" {
		return id
	}
	return name + " (" + id + ")"
}

// Labels are labels as kubectl prints them, "" for none.
func Labels(of map[string]string) string { return labels.Set(of).String() }

// Truth is how a yes or no is shown.
func Truth(yes bool) string {
	if yes {
		return "True"
	}
	return "False"
}

// Problem is the title of a problem, and its name, which the documentation explains.
func Problem(p api.Problem) string {
	return p.Title + " (" + strings.TrimPrefix(p.Type, api.ProblemPrefix) + ")"
}

// ReasonAndMessage is a reason, with its message if there is one.
func ReasonAndMessage(reason api.Reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// OfCondition is the tone of a condition of a node. One that is False is bad news, unless the
// node is still on its way to its role, or at work on it. What was reported before a restore is no news.
func OfCondition(n api.Node, c api.Condition) Tone {
	switch {
	case n.Unconfirmed:
		return Plain
	case c.Status == api.ConditionTrue:
		return Good
	case c.Status == api.ConditionFalse && !atWork(n, c) && (applied(n) || !onTheWay(c.Reason)):
		return Bad
	}
	return Waiting
}

// OfReason is the tone of what has not been reached for a reason, "" for none that is known.
func OfReason(r api.Reason) Tone {
	if r == "" || onTheWay(r) {
		return Waiting
	}
	return Bad
}

// onTheWay reports whether a machine passes a reason while it comes to its role, and nobody has to
// act.
func onTheWay(r api.Reason) bool {
	switch r {
	case api.ReasonNotReady, api.ReasonNotReported, api.ReasonNotEnrolled, api.ReasonConverging, api.ReasonNotMounted,
		api.ReasonWaitingForDevice, api.ReasonWaitingForController, api.ReasonWaitingForExports, api.ReasonPackageManagerBusy,
		api.ReasonEngineNotRunning, api.ReasonClusterNotInstalled, api.ReasonNotJoined, api.ReasonWaitingForCluster, api.ReasonNodeNotReady,
		api.ReasonDNSUnavailable, api.ReasonWaitingForTurn:
		return true
	}
	return false
}

// atWork reports whether the agent works on a condition.
func atWork(n api.Node, c api.Condition) bool {
	return c.Reason == api.ReasonConverging || n.Status != nil && n.Status.Activity != nil && n.Status.Activity.Condition == c.Type
}

// applied reports whether the node has had the role of its present configuration.
func applied(n api.Node) bool {
	return n.Status != nil && n.Status.AppliedGeneration == n.Generation && n.Status.AppliedDigest == n.Digest
}

// OfReady is the tone of whether a node is Ready. One that is not waits, unless it is lost or one of
// its conditions is bad news. One whose identity was revoked is expected to be nothing any more. Of one
// that a restore brought back it is not known.
func OfReady(n api.Node) Tone {
	switch {
	case n.Ready:
		return Good
	case n.State == api.NodeRevoked, n.Unconfirmed:
		return Plain
	case n.State == api.NodeLost, slices.ContainsFunc(Steps(n), func(s Step) bool { return s.Bad }):
		return Bad
	}
	return Waiting
}

// orderOfWork are the conditions in the order in which an agent works on them.
var orderOfWork = api.ConditionTypes()

// Conditions are those of a node as it goes through them, then those that this build does not know,
// Ready at the end; none if it has not reported.
func Conditions(n api.Node) []api.Condition {
	if n.Status == nil {
		return nil
	}
	rank := func(c api.Condition) int {
		if c.Type == api.ConditionReady {
			return len(orderOfWork) + 1
		}
		if i := slices.Index(orderOfWork, c.Type); i >= 0 {
			return i
		}
		return len(orderOfWork)
	}
	conditions := slices.Clone(n.Status.Conditions)
	slices.SortStableFunc(conditions, func(a, b api.Condition) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.Type, b.Type)
	})
	return conditions
}
