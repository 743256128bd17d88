package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/nodehitch/nodehitch/controller/traffic/caller"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
)

// HTTPServer is the server for the listeners of the API, TLS or unix socket. Its
// Shutdown answers held requests at once and waits for the others.
func (s *Handler) HTTPServer() *http.Server {
	server := NewServer(s, s.Log)
	server.RegisterOnShutdown(s.Drain)
	return server
}

// NewServer is a server for the callers of the API, also of a replica that forwards them.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second, // the TLS handshake's, too
		// An agent calls again right after a poll, a person's tool within seconds.
		IdleTimeout:    90 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return caller.Context(connlimit.Context(ctx, conn), conn)
		},
		// One request at a time is all that agents make, and a held HTTP/1.1
		// request costs less memory than an HTTP/2 stream.
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	server.Protocols.SetHTTP1(true)
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
