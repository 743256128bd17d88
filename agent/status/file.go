package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// Save replaces the status file.
func Save(path string, s Status) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the status file: %w", err)
	}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the status file: %w", err)
	}
	return durable.Write(path, append(content, '\n'), 0o600)
}

// Load reads the status file; fs.ErrNotExist if no daemon has run since the
// machine started.
func Load(path string) (Status, error) {
	var s Status
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%w: no agent has run since this machine started; see `systemctl status nodehitch-agent` and `journalctl -u nodehitch-agent`", err)
	}
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading the agent's status: %w", err)
	}
	return s, nil
}

// Running reports whether the process that wrote the status still runs.
func (s *Status) Running() bool {
	if s.StoppedAt != nil {
		return false
	}
	err := syscall.Kill(s.PID, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
