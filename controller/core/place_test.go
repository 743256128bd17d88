package core_test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
)

func TestTheFirstStartKeepsOthersOutAndSaysWhereTheKeyIs(t *testing.T) {
	var log bytes.Buffer
	c := controllertest.New(t, controllertest.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}) // in a directory of mode 0755
	info, err := os.Stat(c.Config.DataDirectory)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the data directory has mode %v, %v", info.Mode(), err)
	}
	key, err := os.ReadFile(c.Config.SealKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	first := log.String()
	for _, want := range []string{"the data directory was open to other users", "was=0755 is=0700", "a seal key was created: keep a copy of it apart from the backups", "file=" + c.Config.SealKeyFile} {
		if strings.Count(first, want) != 1 {
			t.Errorf("%q is not once in the log:\n%s", want, first)
		}
	}
	log.Reset()
	c.Open()
	for _, text := range []string{"seal key", "data directory"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the second start says again:\n%s", log.String())
		}
	}
	if strings.Contains(first+log.String(), string(key)) {
		t.Error("the key is in the log")
	}
}
