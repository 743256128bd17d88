package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/journal"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// newLog makes the log. Text that goes to the systemd journal carries no time,
// which the journal has, and its priority in front (sd-daemon(3)).
func newLog(c config.Log, out *os.File) *slog.Logger {
	var level slog.Level
	// The configuration is validated: the text is a level.
	_ = level.UnmarshalText([]byte(c.Level))
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(escaping{out}, options))
	}
	if ok, err := journal.StderrIsJournalStream(); ok && err == nil && out == os.Stderr {
		return slog.New(newJournalHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// escaping escapes what does something where it is shown, which slog does in text, and in JSON only
// for some of it. slog writes each record at once.
type escaping struct{ io.Writer }

func (w escaping) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(plain.JSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// priorities are syslog's for slog's levels, the highest first.
var priorities = []struct {
	from   slog.Level
	prefix string
}{
	{slog.LevelError, "<3>"},
	{slog.LevelWarn, "<4>"},
	{slog.LevelInfo, "<6>"},
	{slog.LevelDebug, "<7>"},
}

// journalHandler has one text handler for each priority.
type journalHandler []slog.Handler

func newJournalHandler(out io.Writer, options *slog.HandlerOptions) journalHandler {
	options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		_, level := a.Value.Any().(slog.Level)
		builtIn := a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime || a.Key == slog.LevelKey && level
		if len(groups) == 0 && builtIn {
			return slog.Attr{}
		}
		return a
	}
	h := make(journalHandler, len(priorities))
	for i, p := range priorities {
		h[i] = slog.NewTextHandler(prefixWriter{out, p.prefix}, options)
	}
	return h
}

func (h journalHandler) at(level slog.Level) slog.Handler {
	for i, p := range priorities {
		if level >= p.from {
			return h[i]
		}
	}
	return h[len(h)-1]
}

// Enabled reports whether the level is logged.
func (h journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.at(level).Enabled(ctx, level)
}

// Handle logs the record with its priority.
func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.at(r.Level).Handle(ctx, r)
}

// WithAttrs adds attributes to every record.
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make(journalHandler, len(h))
	for i := range h {
		out[i] = h[i].WithAttrs(attrs)
	}
	return out
}

// WithGroup puts later attributes into a group.
func (h journalHandler) WithGroup(name string) slog.Handler {
	out := make(journalHandler, len(h))
	for i := range h {
		out[i] = h[i].WithGroup(name)
	}
	return out
}

// prefixWriter writes each record, which slog writes at once, in one call.
type prefixWriter struct {
	out    io.Writer
	prefix string
}

func (w prefixWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(append([]byte(w.prefix), p...))
	return max(n-len(w.prefix), 0), err
}
