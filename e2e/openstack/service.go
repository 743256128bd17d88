package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/process"
)

const (
	readyLimit = 5 * time.Minute // enough on a busy machine
	stopLimit  = 3 * time.Second // heat-engine would take thirty
)

// Service is one service of a cloud. Its methods are not to be called side by side.
type Service struct {
	// Name of the service, such as heat-api.
	Name string
	// LogFile is its log, of all its lives.
	LogFile string

	argv    []string
	env     []string
	ready   func(context.Context) error
	cloud   *Cloud
	running *process.Process
}

// inOwnGroup notes a process's id, as it is inside, and becomes the program after it. A
// service with its workers is a group, which can be signalled as one.
const inOwnGroup = `echo $$ >"$1"; shift; exec "$@"`

// Start starts it, also again after Stop or Kill, and returns when it is ready. If it
// ends before, or is not ready in time, the error names it and holds the end of its log.
func (s *Service) Start(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// launch does not wait for it.
func (s *Service) launch() error {
	if s.running != nil {
		return fmt.Errorf("%s runs already", s.Name)
	}
	log, err := os.OpenFile(s.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append([]string{"setsid", "sh", "-c", inOwnGroup, "sh", s.groupFile()}, s.argv...)
	cmd := s.cloud.root.command(context.Background(), argv...)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.running, err = process.Start(cmd); err != nil {
		s.running = nil
		return fmt.Errorf("starting %s: %w", s.Name, err)
	}
	return nil
}

// groupFile is a path inside.
func (s *Service) groupFile() string { return "/run/" + s.Name + ".group" }

func (s *Service) waitReady(ctx context.Context) error {
	err := s.poll(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w; its log %s ends with:\n%s", s.Name, err, s.LogFile, s.LogTail(4000))
	}
	return nil
}

func (s *Service) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		notReady := s.ready(ctx)
		if notReady == nil {
			return nil
		}
		select {
		case <-s.running.Ended():
			return fmt.Errorf("it ended before it was ready: %w", cmp.Or(s.running.How(), errors.New("exit status 0")))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready (%w): %w", notReady, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Stop asks it to end, and kills it if that takes too long. It need not run.
func (s *Service) Stop(ctx context.Context) error {
	if s.running == nil {
		return nil
	}
	if err := s.signal(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.running.Ended():
	case <-time.After(stopLimit):
	case <-ctx.Done():
	}
	return s.Kill(ctx) // also workers that outlive it
}

// stopInOrder leaves it all the time that it needs.
func (s *Service) stopInOrder(ctx context.Context) error {
	if err := s.signal(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.running.Ended():
		s.running = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", s.Name, context.Cause(ctx))
	}
}

// Kill ends it between two instructions. It need not run.
func (s *Service) Kill(ctx context.Context) error {
	if s.running == nil {
		return nil
	}
	if err := s.signal(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	<-s.running.Ended()
	s.running = nil
	return nil
}

// Pause makes it hang: connections are taken, and nothing is answered until Resume.
func (s *Service) Pause(ctx context.Context) error { return s.signal(ctx, syscall.SIGSTOP) }

// Resume lets it go on.
func (s *Service) Resume(ctx context.Context) error { return s.signal(ctx, syscall.SIGCONT) }

// signal reaches the service and its workers. That there is none left is no error.
func (s *Service) signal(ctx context.Context, sig syscall.Signal) error {
	group, err := s.cloud.root.run(ctx, "cat", s.groupFile())
	if err != nil {
		return fmt.Errorf("signalling %s: %w", s.Name, err)
	}
	id := "-" + strings.TrimSpace(string(group))
	_, err = s.cloud.root.run(ctx, "kill", fmt.Sprintf("-%d", sig), "--", id)
	if err != nil && strings.Contains(err.Error(), "No such process") {
		return nil
	}
	return err
}

// LogTail is the end of its log, so many bytes of it.
func (s *Service) LogTail(size int) []byte {
	log, _ := os.ReadFile(s.LogFile)
	return log[max(0, len(log)-size):]
}

// Complaints are the last lines of its log that say ERROR or CRITICAL, at most so many.
func (s *Service) Complaints(count int) string {
	var found []string
	for line := range strings.Lines(string(s.LogTail(1 << 20))) {
		if strings.Contains(line, " ERROR ") || strings.Contains(line, " CRITICAL ") {
			found = append(found, line[:min(len(line), 500)])
		}
	}
	return strings.Join(found[max(0, len(found)-count):], "\n")
}
