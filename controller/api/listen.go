package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// HTTPServer is the server for the listeners of the API, TLS or unix socket. Its
// Shutdown answers held requests at once and waits for the others.
func (s *Handler) HTTPServer() *http.Server {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second, // the TLS handshake's, too
		// An agent calls again right after a poll, a person's tool within seconds.
		IdleTimeout:    90 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ConnContext:    withPeer,
		// One request at a time is all that agents make, and a held HTTP/1.1
		// request costs less memory than an HTTP/2 stream.
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	server.Protocols.SetHTTP1(true)
	server.RegisterOnShutdown(s.Drain)
	return server
}

// Shutdown ends the server: held requests are answered, others get until ctx
// ends, then their connections are cut.
func Shutdown(ctx context.Context, server *http.Server) error {
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
