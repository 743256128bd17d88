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
	log.Reset()
	c.Open()
	var warned []string
	for line := range strings.Lines(log.String()) {
		if _, url, is := strings.Cut(line, "agents refuse this address"); is {
			warned = append(warned, strings.TrimSpace(url[strings.Index(url, "url=")+len("url="):]))
		}
	}
	if got := strings.Join(warned, " "); got != "https://old.example https://contrlor.example:8443" {
		t.Errorf("warned of %q; the log is\n%s", got, log.String())
	}
}
