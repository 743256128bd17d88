package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/shared/plain"
)

// What a client writes into a path, or a node into a message, does nothing where the log is shown,
// and is the same in JSON.
func TestNoTextDoesAnythingInTheLog(t *testing.T) {
	const text = "\x1b[2J\x7f\u009b31m\u202e\u2066\u200b\ufeff\u2028\U000e0041\nä"
	for _, format := range []string{"json", "text"} {
		out, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		newLog(config.Log{Level: "info", Format: format}, out).Info(text, text, text)
		written, err := os.ReadFile(out.Name())
		if err != nil || plain.Text(string(written)) != string(written) || bytes.Count(written, []byte("\n")) != 1 {
			t.Errorf("%s: %q, %v", format, written, err)
		}
		var record map[string]string
		if err := json.Unmarshal(written, &record); format == "json" && (err != nil || record["msg"] != text || record[text] != text) {
			t.Errorf("%q, %v", record, err)
		}
	}
}

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
