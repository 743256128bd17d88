package api

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"
)

// HTTPServer is the server for the listeners of the API, TLS or unix socket. Its
// Shutdown answers parked requests at once and waits for the others.
func (s *Handler) HTTPServer() *http.Server {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second, // the TLS handshake's, too
		// An agent calls again right after a poll, a person's tool within seconds.
		IdleTimeout:    90 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ConnContext:    withPeer,
		// One request at a time is all that agents make, and a parked HTTP/1.1
		// request costs less memory than an HTTP/2 stream.
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	server.Protocols.SetHTTP1(true)
	server.RegisterOnShutdown(s.Drain)
	return server
}

// TLSConfig is how the API is served over TCP. A client certificate is asked for
// and not verified here: an expired one may still renew itself, and revocation is
// checked for each request, by Enrolment.
func TLSConfig(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		GetCertificate: certificate,
		ClientAuth:     tls.RequestClientCert,
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"http/1.1"},
	}
}

// Shutdown ends the server: parked requests are answered, others get until ctx
// ends, then their connections are cut.
func Shutdown(ctx context.Context, server *http.Server) error {
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
