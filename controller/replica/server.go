package replica

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/traffic/caller"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// connectionsOfReplicas is how many connections a listener keeps, of those who prove to be a
// replica and of those who do not.
const connectionsOfReplicas = 256

// maxHeader is the API's own limit, and what says who the caller is.
const maxHeader = 48 << 10

// Server answers other replicas.
type Server struct {
	trust   *Trust
	http    *http.Server
	limiter *connlimit.Limiter
	leads   atomic.Pointer[leaderHandler]
	status  atomic.Pointer[func() Status]
}

// leaderHandler is what the leader answers with.
type leaderHandler struct {
	api         http.Handler
	awaitCommit func()
}

// NewServer gives other replicas the package files of this one, and takes theirs.
func NewServer(t *Trust, blobs *files.Blobs, log *slog.Logger) *Server {
	limits := connlimit.LimitsFor(1024)
	limits.Connections, limits.Unauthenticated, limits.PerSource = 2*connectionsOfReplicas, connectionsOfReplicas, connectionsOfReplicas
	s := &Server{trust: t, limiter: &connlimit.Limiter{Limits: limits, Log: log}}
	own := http.NewServeMux()
	own.Handle(pathBlobs, blobRoutes(blobs, log))
	own.HandleFunc("GET "+pathLeader, func(w http.ResponseWriter, _ *http.Request) {
		if s.leads.Load() == nil {
			refuse(w, wire.NewProblem(wire.ProblemUnavailable, "this replica is not the leader"))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	own.HandleFunc("GET "+pathStatus, s.answerStatus)
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	s.http = &http.Server{MaxHeaderBytes: maxHeader, ReadHeaderTimeout: 10 * time.Second, ConnContext: connlimit.Context, Protocols: protocols,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams, SendPingTimeout: silence, PingTimeout: pingLimit,
			MaxReceiveBufferPerStream: bufferOfStream, MaxReceiveBufferPerConnection: bufferOfConnection},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connlimit.Authenticated(r.Context(), "replica", connectionsOfReplicas)
			// What a replica hands on is for the API only, whatever its path.
			if len(r.Header.Values(caller.Header)) == 0 {
				own.ServeHTTP(w, r)
				return
			}
			s.forwarded(w, r)
		})}
	return s
}

// Lead has the server answer the requests that other replicas hand on: this one is the leader.
// awaitCommit waits until the API sees all that other replicas may have seen before.
func (s *Server) Lead(api http.Handler, awaitCommit func()) {
	s.leads.Store(&leaderHandler{api, awaitCommit})
}

func (s *Server) forwarded(w http.ResponseWriter, r *http.Request) {
	leader := s.leads.Load()
	if leader == nil {
		refuse(w, wire.NewProblem(wire.ProblemNoLeader, "this replica is not the leader, so nothing of this request was done: try again"))
		return
	}
	leader.forwarded(w, r)
}

// Serve answers until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(s.limiter.Listener(l, s.trust.Server())); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown lets requests in progress end until ctx does. The caller has drained the API.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}
