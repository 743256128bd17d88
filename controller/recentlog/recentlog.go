// Package recentlog keeps the last lines of a log in memory, so that an operator on another
// machine can be given them.
package recentlog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// What is kept, at most.
const (
	mostLines = 2000
	mostBytes = 1 << 20
	// longestLine is in bytes; of a longer line the beginning is kept.
	longestLine = 4 << 10
)

// Handler gives each record to the next handler and keeps it as text.
type Handler struct {
	next, text slog.Handler
	lines      *lines
}

// New makes a Handler in front of another one. What that one does not log is not kept.
func New(next slog.Handler) *Handler {
	l := &lines{}
	return &Handler{next: next, text: slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: inUTC}), lines: l}
}

// Of is the last lines of a log whose handler is a Handler, the oldest first, and how many lines before
// them were dropped. Any other log has none.
func Of(log *slog.Logger) (kept []string, dropped int) {
	h, ok := log.Handler().(*Handler)
	if !ok {
		return nil, 0
	}
	return h.lines.all()
}

// Enabled reports whether the next handler logs the level.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle keeps the record and gives it to the next handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	_ = h.text.Handle(ctx, r) // memory takes it
	return h.next.Handle(ctx, r)
}

// WithAttrs adds attributes to every record.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.text.WithAttrs(attrs), h.lines}
}

// WithGroup puts later attributes into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.text.WithGroup(name), h.lines}
}

func inUTC(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.Time(slog.TimeKey, a.Value.Time().UTC().Truncate(time.Millisecond))
	}
	return a
}

// lines are the last lines of a log.
type lines struct {
	mu      sync.Mutex
	kept    []string
	bytes   int
	dropped int
}

// Write keeps a line, which slog writes at once.
func (l *lines) Write(p []byte) (int, error) {
	line := strings.TrimSuffix(string(p[:min(len(p), longestLine)]), "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept, l.bytes = append(l.kept, line), l.bytes+len(line)
	for len(l.kept) > mostLines || l.bytes > mostBytes {
		l.bytes -= len(l.kept[0])
		l.kept[0] = ""
		l.kept, l.dropped = l.kept[1:], l.dropped+1
	}
	return len(p), nil
}

func (l *lines) all() ([]string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.kept...), l.dropped
}
