package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/agent/status"
	"github.com/nodehitch/nodehitch/shared/api"
)

func statusCommand() *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the agent does and why it waits",
		Long: "Reads the file that the service keeps; it needs neither the controller nor the\n" +
			"running service. Exit code 0 when there is a status, whatever it says.",
		Example: "  nodehitch-agent status\n  nodehitch-agent status -o json | jq .node.conditions",
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return &usageError{fmt.Errorf("--output %s: expected table or json", output)}
			}
			s, err := status.Load(file)
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			return showStatus(cmd.OutOrStdout(), &s, time.Now())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().StringVar(&file, "status-file", status.DefaultFile, "`file` that the service keeps")
	return cmd
}

// showStatus prints the status for people.
func showStatus(w io.Writer, s *status.Status, now time.Time) error {
	fmt.Fprintln(w, s.Summary())
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s:\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("agent", "%s, %s", s.AgentVersion, process(s, now))
	if s.NodeID != "" {
		row("node", "%s (by %s)", s.NodeID, s.IdentitySource)
	}
	showController(row, &s.Controller, now)
	if s.Origin != "" {
		row("configuration", "generation %d for role %s, from the %s; applied: %s", s.Node.ObservedGeneration, s.Role, s.Origin, generation(s.Node.AppliedGeneration))
	}
	if s.Unsaved != "" {
		row("not kept", "%s", s.Unsaved)
	}
	if s.Node.LastFailedGeneration != 0 {
		row("last failure", "generation %d, %s", s.Node.LastFailedGeneration, s.Node.LastFailedCondition)
	}
	if a := s.Node.Activity; a != nil {
		row("activity", "%s, for %s", a.Summary, since(a.StartedAt, now))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Node.Conditions) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	if err := conditionTable(w, s.Node.Conditions); err != nil {
		return err
	}
	explain(w, s.Node.Conditions)
	return nil
}

func showController(row func(name, format string, args ...any), c *status.Controller, now time.Time) {
	switch {
	case c.Connected && c.LastContact != nil:
		row("controller", "%s, last heard of %s ago", c.URL, since(*c.LastContact, now))
	case c.LastContact != nil:
		row("controller", "%s does not answer; last heard of %s ago", c.URL, since(*c.LastContact, now))
	default:
		row("controller", "not connected yet")
	}
	switch { // while it waits, what was said before is history
	case c.Waiting != "":
		row("waiting", "%s", c.Waiting)
	case c.LastError != "":
		row("last error", "%s", c.LastError)
	}
	if c.NextAttempt != nil && c.NextAttempt.After(now) {
		row("next attempt", "in %s", c.NextAttempt.Sub(now).Round(time.Second))
	}
	if c.HoldSeconds != 0 {
		row("way", "closes idle connections: polls are held for %d s; set the controller's pollSeconds below the idle timeout of what is between", c.HoldSeconds)
	}
	if len(c.URLs) > 1 {
		row("addresses", "%s", addresses(c))
	}
	if c.Damaged != "" {
		row("identity", "not used: %s", c.Damaged)
	}
	if c.RenewalError != "" {
		row("renewal", "%s", c.RenewalError)
	}
	if c.CertificateNotAfter == nil {
		row("certificate", "none yet")
		return
	}
	left := c.CertificateNotAfter.Sub(now).Round(time.Minute)
	if left < 0 {
		row("certificate", "%s, expired %s ago; it can be renewed for 30 days", c.CertificateSerial, -left)
		return
	}
	row("certificate", "%s, good for %s more (until %s)", c.CertificateSerial, left, c.CertificateNotAfter.Format(time.RFC3339))
}

// addresses are the controller's, in the order in which they are tried.
func addresses(c *status.Controller) string {
	var list []string
	for _, url := range c.URLs {
		var notes []string
		if slices.Contains(c.Learned, url) {
			notes = append(notes, "learned")
		}
		if url == c.URL {
			notes = append(notes, "in use")
		}
		if len(notes) > 0 {
			url += " (" + strings.Join(notes, ", ") + ")"
		}
		list = append(list, url)
	}
	return strings.Join(list, ", ")
}

// conditionTable is one line a condition.
func conditionTable(w io.Writer, conditions []api.Condition) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "CONDITION\tSTATUS\tREASON\tSINCE\tMESSAGE")
	for _, c := range conditions {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.Type, c.Status, c.Reason, c.LastTransitionTime.Format(time.RFC3339), strings.ReplaceAll(c.Message, "\n", "; "))
	}
	return t.Flush()
}

// explain prints the meaning of each condition that is not True, and what to do.
func explain(w io.Writer, conditions []api.Condition) {
	for _, c := range conditions {
		doc, known := api.Reasons[c.Reason]
		if c.Status == api.ConditionTrue || !known || c.Type == api.ConditionReady && c.Reason == api.ReasonNotReady {
			continue
		}
		fmt.Fprintf(w, "\n%s is %s (%s): %s\n", c.Type, c.Status, c.Reason, doc.Meaning)
		if doc.Action != "" {
			fmt.Fprintf(w, "  what to do: %s\n", doc.Action)
		}
	}
}

func process(s *status.Status, now time.Time) string {
	switch {
	case s.StoppedAt != nil:
		return fmt.Sprintf("stopped %s ago; the rest is its last status", since(*s.StoppedAt, now))
	case !s.Running():
		return fmt.Sprintf("process %d ended unexpectedly; the rest is its last status", s.PID)
	}
	return fmt.Sprintf("process %d, running for %s", s.PID, since(s.StartedAt, now))
}

func generation(n int64) string {
	if n == 0 {
		return "none yet"
	}
	return fmt.Sprintf("generation %d", n)
}

func since(t, now time.Time) time.Duration { return now.Sub(t).Round(time.Second) }
