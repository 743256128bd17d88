package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/telemetry"
)

func TestARouteThatWasRegisteredWithoutAuthenticationIsClosed(t *testing.T) {
	s, err := New(Options{Metrics: telemetry.New("test"), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.echo = echo.New()
	s.echo.Pre(s.observe)
	RegisterHandlers(s.echo, NewStrictHandler(s, []StrictMiddlewareFunc{authenticatedOnly}))
	for _, path := range []string{"/healthz", "/v1/trust", "/v1/tokens", "/v1/node/config"} {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody))
		if body, _ := io.ReadAll(answer.Body); answer.Code != http.StatusInternalServerError {
			t.Errorf("%s: %d %s", path, answer.Code, body)
		}
	}
}
