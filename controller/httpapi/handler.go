package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"github.com/nodehitch/nodehitch/controller/agentupgrade"
	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/lifecycle/instance"
	"github.com/nodehitch/nodehitch/controller/lifecycle/node"
	"github.com/nodehitch/nodehitch/controller/lifecycle/operation"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/permit"
	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/telemetry"
	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	"github.com/nodehitch/nodehitch/controller/trust/access"
	"github.com/nodehitch/nodehitch/controller/trust/enrollment"
	"github.com/nodehitch/nodehitch/controller/ui"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// Options is what a Handler is made of: the services behind the routes. All of it is needed
// but Times. Every error of a service that is a *Problem is the answer; any other is logged
// and answered as an internal error that says nothing.
type Options struct {
	Instances  *instance.Service
	Operations *operation.Service
	Nodes      *node.Service
	Agents     *agentupgrade.Service
	Volumes    *permit.Service
	Enrollment *enrollment.Service
	Tokens     *access.Service
	Files      *files.Service
	Events     *event.Log
	Backups    *backup.Service
	Replicas   Replicas
	UI         *ui.UI
	Changes    *notify.Hub
	Metrics    *telemetry.Metrics
	// Settings are those in force.
	Settings config.Config
	// Trust is what user_data needs.
	Trust wire.Trust
	// ControllerURLs are told to agents with each poll.
	ControllerURLs []string
	// PollSeconds is how long a poll for a configuration is held, before jitter;
	// ConvergeSeconds is passed on to agents.
	PollSeconds, ConvergeSeconds int
	// SpreadSeconds is over how long agents shall come back that lost the controller.
	SpreadSeconds func() int
	// Times that are zero have their defaults.
	Times Times
	// Serviceable is nil while the controller can do all of its work.
	Serviceable func(context.Context) error
	Now         func() time.Time
	Log         *slog.Logger
}

// Replicas are the controllers that share the store.
type Replicas interface {
	// List is those that are alive, ordered by their ids; none of a store of this controller's own.
	List(ctx context.Context) ([]wire.Replica, error)
}

// Handler answers the API of openapi.yaml.
type Handler struct {
	Options
	echo     *echo.Echo
	document *openapi3.T
	statuses *ratelimit.Limiter[string] // by node
	lists    turns
	// draining ends every wait; it is closed at shutdown.
	draining context.Context
	drain    context.CancelFunc
}

// Document is the OpenAPI document, read.
func Document() (*openapi3.T, error) {
	document, err := openapi3.NewLoader().LoadFromData(wire.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	return document, nil
}

// New makes a Handler. It fails if the OpenAPI document requires something that the server
// does not enforce.
func New(o Options) (*Handler, error) {
	document, err := Document()
	if err != nil {
		return nil, err
	}
	if o.Times == (Times{}) {
		o.Times = usualTimes
	}
	s := &Handler{Options: o, document: document,
		statuses: ratelimit.New[string](statusEvery, statusBurst, maxNodes)}
	s.draining, s.drain = context.WithCancel(context.Background())
	if err := s.routes(); err != nil {
		return nil, err
	}
	return s, nil
}

// ServeHTTP answers one request.
func (s *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Drain answers every held request at once, and each that comes later without
// holding it. Call it when the shutdown begins.
func (s *Handler) Drain() { s.drain() }

// routes registers every operation of the document behind what it asks for, from
// the outside in: limits of time and size, authentication, how often a node may report,
// the shape of its input.
func (s *Handler) routes() error {
	s.echo = echo.New()
	s.echo.HTTPErrorHandler = s.answerError
	s.echo.Binder = bodyBinder{}
	s.echo.Pre(s.observe)
	operations, err := endpointsOf(s.document)
	if err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	middlewares := make(map[string][]echo.MiddlewareFunc, len(operations))
	for id, op := range operations {
		middlewares[id] = []echo.MiddlewareFunc{behind(named(id), s.limitTimes(op), s.authenticate(op), s.limitStatuses(id), checkParameters(op), s.checkBody(op))}
	}
	s.statusPage()
	RegisterHandlersWithOptions(withHead{s.echo}, NewStrictHandler(s, []StrictMiddlewareFunc{authenticatedOnly}), RegisterHandlersOptions{OperationMiddlewares: middlewares})
	return nil
}

// withHead registers HEAD with each GET. It is answered by the same handler: net/http sends
// no body for it.
type withHead struct{ *echo.Echo }

// GET registers both.
func (r withHead) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) *echo.Route {
	r.HEAD(path, h, m...)
	return r.Echo.GET(path, h, m...)
}

// check is one thing that has to be true, or be done, before an operation runs.
type check func(echo.Context) error

// behind runs the checks one after another. They have returned when the operation
// runs: a poll that is held keeps nothing of them on its stack.
func behind(checks ...check) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			for _, check := range checks {
				if err := check(c); err != nil {
					return err
				}
			}
			return next(c)
		}
	}
}

var _ StrictServerInterface = (*Handler)(nil)
