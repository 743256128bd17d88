package main

import (
	"bytes"
	"log/slog"
	"testing"
)

func TestTheJournalGetsPrioritiesAndNoTime(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newJournalHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})).With("a", 1)
	log.Debug("not this")
	log.Info("started", "time", "noon")
	log.Warn("odd")
	log.WithGroup("g").Error("bad", "level", 7)
	want := "<6>msg=started a=1 time=noon\n<4>msg=odd a=1\n<3>msg=bad a=1 g.level=7\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
