package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// standIn is systemd-run and systemctl for the agent: it leaves its arguments in a file,
// one a line.
const standIn = `#!/bin/sh
calls=$(dirname "$0")/../calls
printf '%s\n' "$(basename "$0")" "$@" >"$calls/.$$" && mv "$calls/.$$" "$calls/$$"
`

// standIns puts them where the agent finds them first.
func (s *Supervisor) standIns() error {
	for _, dir := range []string{"standins", "calls"} {
		if err := os.Mkdir(s.file(dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"systemd-run", "systemctl"} {
		if err := os.WriteFile(filepath.Join(s.file("standins"), name), []byte(standIn), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// answer does what the agent has asked the service manager for.
func (s *Supervisor) answer(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, _ := filepath.Glob(filepath.Join(s.file("calls"), "[0-9]*"))
		for _, path := range asked {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				s.log("%v", err)
				continue
			}
			s.do(ctx, strings.Split(strings.TrimSpace(string(text)), "\n"))
		}
	}
}

// do does one of these calls; others are not the unit's and change nothing.
func (s *Supervisor) do(ctx context.Context, argv []string) {
	switch {
	case argv[0] == "systemctl" && len(argv) > 1 && argv[1] == "restart":
		s.Restart()
	case argv[0] == "systemd-run":
		after, command := timer(argv[1:])
		time.AfterFunc(after, func() {
			if ctx.Err() != nil {
				return
			}
			p, err := s.begin(command)
			if err != nil {
				s.log("%v", err)
				return
			}
			if err := p.How(); err != nil {
				s.log("%q: %v", command, err)
			}
		})
	}
}

// timer is what systemd-run is to run, and after how long.
func timer(args []string) (after time.Duration, command []string) {
	for i, arg := range args {
		if text, ok := strings.CutPrefix(arg, "--on-active="); ok {
			after, _ = time.ParseDuration(text) // at once, if it is none
		}
		if arg == "--" {
			return after, args[i+1:]
		}
	}
	return after, nil
}
