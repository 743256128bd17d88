package core_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/controller/core/controllertest"
)

func TestAnAddressThatTheCertificateDoesNotNameIsWarnedOf(t *testing.T) {
	var log bytes.Buffer
	c := controllertest.New(t, controllertest.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	c.Config.Names = []string{"Controller.example", "2001:DB8::1"}
	c.Config.AdvertiseURLs = []string{"https://controller.EXAMPLE:8443", "https://old.example"}
	c.Config.ControllerURLs = []string{"https://[2001:db8::1]:8443", "https://127.0.0.1", "https://contrlor.example:8443", "https://old.example"}
	for _, want := range []string{"https://old.example https://contrlor.example:8443", ""} {
		log.Reset()
		c.Open()
		var warned []string
		for line := range strings.Lines(log.String()) {
			if _, url, is := strings.Cut(line, "agents refuse this address"); is {
				warned = append(warned, strings.TrimSpace(url[strings.Index(url, "url=")+len("url="):]))
			}
		}
		if got := strings.Join(warned, " "); got != want {
			t.Errorf("warned of %q; the log is\n%s", got, log.String())
		}
		c.Config.Store.Etcd.Endpoints = []string{"https://etcd.example:2379"} // other controllers have other names
	}
}
