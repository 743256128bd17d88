package engine

import (
	"testing"
)

// An engine runs, is stopped and killed, and finds its images again.
func TestEngineLife(t *testing.T) {
	e := Open(t)
	for _, end := range []func(){e.Stop, e.Kill} {
		if out, err := e.Docker("info", "--format", "{{.Driver}} {{.ServerVersion}}"); err != nil {
			t.Fatal(out, err)
		} else {
			t.Log(out)
		}
		if len(e.PIDs()) != 1 {
			t.Errorf("dockerd's pids are %v", e.PIDs())
		}
		end()
		if e.ping() == nil {
			t.Error("an engine that has ended answers")
		}
		e.Start()
	}
}
