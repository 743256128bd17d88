package serve

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/cloud/stack"
	"github.com/nodehitch/nodehitch/controller/config"
)

func TestWhereTopologiesComeFrom(t *testing.T) {
	log, none := slog.New(slog.DiscardHandler), func(string, string, int) {}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte("clouds: {good: {auth: {auth_url: 'https://k', application_credential_id: i, application_credential_secret: s}}, bad: {}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config config.OpenStack
		heat   bool
		says   string
	}{
		"nothing configured":       {config: config.OpenStack{CloudsFile: file}},
		"an entry":                 {config: config.OpenStack{CloudsFile: file, Cloud: "good"}, heat: true},
		"what instances bring":     {config: config.OpenStack{CloudsFile: "/nowhere", VIMConnectionInfo: true}, heat: true},
		"an entry with faults":     {config: config.OpenStack{CloudsFile: file, Cloud: "bad"}, says: "/auth/auth_url: is missing"},
		"an entry that is not":     {config: config.OpenStack{CloudsFile: file, Cloud: "else"}, says: "it has bad, good"},
		"a file that is not there": {config: config.OpenStack{CloudsFile: "/nowhere", Cloud: "good"}, says: "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			clouds, err := openClouds(c.config, none, log)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("err %v, want %q", err, c.says)
				}
				return
			}
			_, heat := sourceOf(clouds).(stack.Heat)
			if err != nil || heat != c.heat {
				t.Errorf("from Heat %v, err %v", heat, err)
			}
		})
	}
}
