package site

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/machine/install"
	"github.com/nodehitch/nodehitch/e2e/lab"
)

//go:embed killer.py
var killerProgram []byte

const (
	killerPath   = "/root/killer.py"
	killerDropIn = "/etc/systemd/system/nodehitch-agent.service.d/killer.conf"
	// momentsPath has the moments at which the killer has killed.
	momentsPath = "/run/killer-moments"
	// endsPath has how each run of the agent ended, as systemd saw it.
	endsPath = "/run/killer-ends"
)

// Killer kills the agent of a machine when it is about to log that an action begins or
// ends, each moment once. systemd starts the agent again at once.
type Killer struct {
	node lab.Node
	// identifier is what the journal calls the agent while the killer is there.
	identifier string
}

// StartKiller returns when the agent is under the killer. An agent that runs is started
// again; one that is not installed yet comes under it when it is.
func StartKiller(ctx context.Context, node lab.Node) (*Killer, error) {
	k := &Killer{node, "killed-" + uuid.NewString()}
	dropIn := fmt.Sprintf(`[Service]
ExecStart=
ExecStart=%s %s %s run
ExecStopPost=/bin/sh -c 'echo "$EXIT_STATUS" >>%s'
RestartSec=100ms
SyslogIdentifier=%s
`, killerPath, momentsPath, install.Binary, endsPath, k.identifier)
	if err := node.Push(ctx, killerPath, 0o700, killerProgram); err != nil {
		return nil, err
	}
	if err := node.Push(ctx, killerDropIn, 0o644, []byte(dropIn)); err != nil {
		return nil, err
	}
	_, err := node.Exec(ctx, "sh", "-euc", "rm -f "+momentsPath+" "+endsPath+"; systemctl daemon-reload; ! systemctl cat nodehitch-agent || systemctl try-restart nodehitch-agent")
	return k, err
}

// Stop stops killing and returns the moments at which the agent was killed. It is an error
// if the agent got past a moment without a kill, or if systemd has seen fewer kills.
func (k *Killer) Stop(ctx context.Context) (moments []string, err error) {
	// The killer and the last of its kills are over when the service has stopped.
	_, err = k.node.Exec(ctx, "sh", "-euc", "systemctl stop nodehitch-agent; rm "+killerDropIn+"; systemctl daemon-reload; systemctl start nodehitch-agent")
	if err != nil {
		return nil, err
	}
	killed, err := k.node.Pull(ctx, momentsPath)
	if err != nil {
		return nil, err
	}
	ends, err := k.node.Pull(ctx, endsPath)
	if err != nil {
		return nil, err
	}
	logged, err := k.node.Exec(ctx, "sh", "-euc", "journalctl --sync; journalctl --output=cat --identifier="+k.identifier)
	if err != nil {
		return nil, err
	}
	moments = lines(killed)
	return moments, errors.Join(missed(moments, lines(logged)), survived(moments, lines(ends)))
}

// missed says which moments are in the log though the agent was not killed at them.
func missed(moments, logged []string) error {
	var errs []error
	for _, line := range logged {
		moment, _, _ := strings.Cut(line, " took=")
		if strings.Contains(moment, `msg="action `) && !slices.Contains(moments, moment) {
			errs = append(errs, fmt.Errorf("the agent was not killed at %s", moment))
		}
	}
	return errors.Join(errs...)
}

// survived compares the moments with the kills that systemd has seen. There may be more
// kills: the test makes some itself.
func survived(moments, ends []string) error {
	kills := 0
	for _, end := range ends {
		if end == "KILL" {
			kills++
		}
	}
	if kills < len(moments) {
		return fmt.Errorf("the agent was to be killed at %d moments; systemd has seen %d kills: %q", len(moments), kills, ends)
	}
	return nil
}

func lines(text []byte) []string {
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
