package recentlog_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/recentlog"
	"github.com/nodehitch/nodehitch/shared/plain"
)

func TestTheLastLinesAreKept(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(recentlog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	log.Debug("not logged, so not kept")
	for i := range 2100 {
		log.Info("a line", "i", i)
	}
	log.With("a", 1).WithGroup("g").Warn("\x1b[2J", "b", "c\nd")
	kept, dropped := recentlog.Of(log.With("another", "logger"))
	if len(kept) != 2000 || dropped != 101 || !strings.HasSuffix(kept[0], ` msg="a line" i=101`) {
		t.Errorf("%d lines from %q on, %d dropped", len(kept), kept[0], dropped)
	}
	last := kept[len(kept)-1]
	if !strings.HasPrefix(last, "time=20") || !strings.HasSuffix(last, `level=WARN msg="\x1b[2J" a=1 g.b="c\nd"`) || plain.Text(last) != last {
		t.Errorf("the last line is %q", last)
	}
	if !strings.Contains(out.String(), "g.b=") {
		t.Error("the next handler gets nothing")
	}
}

// Whatever is logged, a bounded part of memory is used.
func TestTheMemoryIsBounded(t *testing.T) {
	log := slog.New(recentlog.New(slog.NewTextHandler(new(bytes.Buffer), nil)))
	for i := range 1000 {
		log.Info(fmt.Sprintf("%d %s", i, strings.Repeat("x", 10_000)))
	}
	kept, dropped := recentlog.Of(log)
	bytes := 0
	for _, line := range kept {
		bytes += len(line)
	}
	if bytes > 1<<20 || len(kept) < 200 || len(kept)+dropped != 1000 {
		t.Errorf("%d lines with %d bytes, %d dropped", len(kept), bytes, dropped)
	}
	if kept, _ := recentlog.Of(slog.New(slog.DiscardHandler)); kept != nil {
		t.Errorf("a log that keeps nothing has %q", kept)
	}
}
