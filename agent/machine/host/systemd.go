package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// idleConnection is how long an unused connection to systemd is kept. A pass makes a few
// calls; between passes the connection's buffers are not needed.
const idleConnection = 3 * time.Second

// systemd speaks to systemd over D-Bus: as root through its private socket, which needs no
// bus daemon, else through the system bus.
type systemd struct {
	run     *Runner
	changes *Changes
	proc    string

	mu    sync.Mutex
	conn  *dbus.Conn
	users int
	idle  *time.Timer
}

func (s *systemd) Unit(ctx context.Context, name string) (unit Unit, err error) {
	err = s.with(ctx, func(c *dbus.Conn) error {
		properties, err := c.GetUnitPropertiesContext(ctx, name)
		if err != nil {
			return fmt.Errorf("asking systemd for %s: %w", name, err)
		}
		text := func(key string) string { s, _ := properties[key].(string); return s }
		unit = Unit{Loaded: text("LoadState"), Active: text("ActiveState"), Sub: text("SubState"), File: text("UnitFileState")}
		unit.Stale, _ = properties["NeedDaemonReload"].(bool)
		job, _ := properties["Job"].([]any) // its number, 0 if there is none, and its path
		unit.Job = len(job) > 0 && job[0] != uint32(0)
		return nil
	})
	return unit, err
}

func (s *systemd) Reload(ctx context.Context) error {
	s.changes.Unit()
	return s.with(ctx, func(c *dbus.Conn) error {
		if err := c.ReloadContext(ctx); err != nil {
			return fmt.Errorf("reloading systemd: %w", err)
		}
		return nil
	})
}

func (s *systemd) Enable(ctx context.Context, name string) error {
	s.changes.Unit()
	err := s.with(ctx, func(c *dbus.Conn) error {
		_, _, err := c.EnableUnitFilesContext(ctx, []string{name}, false, true)
		return err
	})
	if err != nil {
		return fmt.Errorf("enabling %s: %w", name, err)
	}
	return nil
}

func (s *systemd) Disable(ctx context.Context, name string) error {
	s.changes.Unit()
	err := s.with(ctx, func(c *dbus.Conn) error {
		_, err := c.DisableUnitFilesContext(ctx, []string{name}, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("disabling %s: %w", name, err)
	}
	return nil
}

func (s *systemd) Start(ctx context.Context, name string) error {
	return s.job(ctx, "start", name, func(c *dbus.Conn, done chan<- string) error {
		_ = c.ResetFailedUnitContext(ctx, name) // an error means that the unit has not failed
		_, err := c.StartUnitContext(ctx, name, "replace", done)
		return err
	})
}

func (s *systemd) Stop(ctx context.Context, name string) error {
	return s.job(ctx, "stop", name, func(c *dbus.Conn, done chan<- string) error {
		_, err := c.StopUnitContext(ctx, name, "replace", done)
		return err
	})
}

func (s *systemd) ReloadUnit(ctx context.Context, name string) error {
	return s.job(ctx, "reload", name, func(c *dbus.Conn, done chan<- string) error {
		_, err := c.ReloadUnitContext(ctx, name, "replace", done)
		return err
	})
}

func (s *systemd) Restart(ctx context.Context, name string) error {
	return s.job(ctx, "restart", name, func(c *dbus.Conn, done chan<- string) error {
		_ = c.ResetFailedUnitContext(ctx, name) // an error means that the unit has not failed
		_, err := c.RestartUnitContext(ctx, name, "replace", done)
		return err
	})
}

func (s *systemd) CommandLine(ctx context.Context, name string) ([]string, error) {
	pid, err := s.mainProcess(ctx, name)
	if err != nil || pid == 0 {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(s.proc, strconv.FormatUint(uint64(pid), 10), "cmdline"))
	if errors.Is(err, fs.ErrNotExist) { // it ended meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the command line of %s: %w", name, err)
	}
	return splitCommandLine(content), nil
}

func (s *systemd) OpenFiles(ctx context.Context, name string) ([]string, error) {
	pid, err := s.mainProcess(ctx, name)
	if err != nil || pid == 0 {
		return nil, err
	}
	directory := filepath.Join(s.proc, strconv.FormatUint(uint64(pid), 10), "fd")
	entries, err := os.ReadDir(directory)
	if err != nil && !gone(err) {
		return nil, fmt.Errorf("reading the open files of %s: %w", name, err)
	}
	var paths []string
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(directory, e.Name())); err == nil { // else it is closed meanwhile
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// mainProcess is the id of a unit's main process, 0 if none runs.
func (s *systemd) mainProcess(ctx context.Context, name string) (pid uint32, err error) {
	err = s.with(ctx, func(c *dbus.Conn) error {
		property, err := c.GetServicePropertyContext(ctx, name, "MainPID")
		if err == nil {
			pid, _ = property.Value.Value().(uint32)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("asking systemd for the main process of %s: %w", name, err)
	}
	return pid, nil
}

func (s *systemd) OfProcess(ctx context.Context, pid int) (name string, err error) {
	err = s.with(ctx, func(c *dbus.Conn) error {
		name, err = c.GetUnitNameByPID(ctx, uint32(pid))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("asking systemd for the unit of process %d: %w", pid, err)
	}
	return name, nil
}

// splitCommandLine splits /proc/<pid>/cmdline, which is empty for a process that has ended.
func splitCommandLine(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
}

// jobLimit allows for a mount that replays a long journal.
const jobLimit = 15 * time.Minute

func (s *systemd) job(ctx context.Context, verb, name string, begin func(*dbus.Conn, chan<- string) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, jobLimit, fmt.Errorf("it took longer than %s", jobLimit))
	defer cancel()
	s.changes.Unit()
	log := s.run.Log.With("unit", name, "verb", verb)
	log.Info("job started")
	var result string
	err := s.with(ctx, func(c *dbus.Conn) error {
		done := make(chan string, 1)
		if err := begin(c, done); err != nil {
			return err
		}
		select {
		case result = <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	switch {
	case err != nil:
		log.Warn("job failed", "error", err)
		return &JobError{Unit: name, Verb: verb, Result: err.Error()}
	case result != "done":
		failure := &JobError{Unit: name, Verb: verb, Result: result, Detail: s.explain(ctx, name, result)}
		log.Warn("job failed", "error", failure)
		return failure
	}
	log.Info("job finished")
	return nil
}

// explain returns the end of the unit's log on one line. If the unit failed because of
// another unit, its own log says nothing, and explain names the units that failed.
func (s *systemd) explain(ctx context.Context, name, result string) string {
	if result == "dependency" {
		return s.failedUnits(ctx)
	}
	return s.Said(ctx, name)
}

func (s *systemd) Said(ctx context.Context, name string) string {
	logged, err := s.run.Run(ctx, journalCommand(name))
	if err != nil {
		return ""
	}
	lines := strings.FieldsFunc(logged.Stdout, func(r rune) bool { return r == '\n' })
	return strings.Join(slices.Compact(lines), " | ")
}

func (s *systemd) failedUnits(ctx context.Context) string {
	var names []string
	err := s.with(ctx, func(c *dbus.Conn) error {
		units, err := c.ListUnitsFilteredContext(ctx, []string{"failed"})
		for _, u := range units {
			names = append(names, u.Name)
		}
		return err
	})
	if err != nil || len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "failed units: " + strings.Join(names, ", ")
}

// with lends the connection. It connects if there is none, and closes the connection after
// some time without use.
func (s *systemd) with(ctx context.Context, use func(*dbus.Conn) error) error {
	conn, err := s.borrow(ctx)
	if err != nil {
		return err
	}
	defer s.giveBack()
	return use(conn)
}

func (s *systemd) borrow(ctx context.Context) (*dbus.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.conn != nil && !s.conn.Connected() && s.users == 0 {
		s.conn.Close()
		s.conn = nil
	}
	if s.conn == nil {
		conn, err := connect(ctx)
		if err != nil {
			return nil, &NoSystemdError{err}
		}
		s.conn = conn
	}
	s.users++
	return s.conn, nil
}

func (s *systemd) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.idle = time.AfterFunc(idleConnection, s.closeIdle)
	}
}

func (s *systemd) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 && s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// connect makes a connection that outlives ctx, because later calls use it too.
func connect(ctx context.Context) (*dbus.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err == nil {
		return conn, nil
	}
	conn, second := dbus.NewSystemConnectionContext(ctx)
	if second == nil {
		return conn, nil
	}
	return nil, err
}

// FlagValues are the values of a flag on a command line, given as --flag=value or --flag value.
func FlagValues(argv []string, flag string) []string {
	var values []string
	for i, arg := range argv {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			values = append(values, value)
		} else if arg == flag && i+1 < len(argv) {
			values = append(values, argv[i+1])
		}
	}
	return values
}
