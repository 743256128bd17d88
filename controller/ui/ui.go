// Package ui is the server of the status page: who is signed in, and which objects each page
// shows. It reads with the API's services and changes nothing: its interfaces have no method that
// does. Package page makes the HTML.
package ui

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"github.com/nodehitch/nodehitch/controller/store/event"
	"github.com/nodehitch/nodehitch/controller/traffic/ratelimit"
	"github.com/nodehitch/nodehitch/controller/ui/page"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What the page reads: a part of the services of the API that a viewer may call.
type (
	// Instances are VNF instances, their secrets redacted.
	Instances interface {
		GetInstance(ctx context.Context, id string) (api.Instance, error)
		ListInstances(ctx context.Context) ([]api.Instance, error)
	}
	// Operations are LCM operations.
	Operations interface {
		GetOperation(ctx context.Context, instanceID string, sequence int64) (api.Operation, error)
		// ListOperations lists the newest first; of all instances for "".
		ListOperations(ctx context.Context, instanceID string) ([]api.Operation, error)
	}
	// Nodes are VMs and their status.
	Nodes interface {
		GetNode(ctx context.Context, id string) (api.Node, error)
		// ListNodes lists the nodes of one instance, of every one for "".
		ListNodes(ctx context.Context, instanceID string, all bool) ([]api.Node, error)
	}
	// Agents are the nodes' agents and their upgrade.
	Agents interface {
		Rollout(ctx context.Context) (api.AgentRollout, error)
	}
	// Volumes are Cinder volumes and the permits to format them.
	Volumes interface {
		Get(ctx context.Context, id string) (api.Volume, error)
		List(ctx context.Context) ([]api.Volume, error)
	}
	// Events are what has happened.
	Events interface {
		List(q event.Query) (api.EventList, error)
	}
	// Replicas are the controllers that share the store.
	Replicas interface {
		List(ctx context.Context) ([]api.Replica, error)
	}
	// Tokens are the API tokens.
	Tokens interface {
		Verify(ctx context.Context, bearer string) (api.Token, error)
		// Find is the token of the id; unauthorized if it lets nobody in.
		Find(ctx context.Context, id string) (api.Token, error)
	}
	// Changes tells of changes.
	Changes interface {
		Watch(key string) (changed <-chan struct{}, stop func())
	}
)

// Options is what a UI is made of. All of it is needed but Times.
type Options struct {
	Instances  Instances
	Operations Operations
	Nodes      Nodes
	Agents     Agents
	Volumes    Volumes
	Events     Events
	Replicas   Replicas
	Tokens     Tokens
	Changes    Changes
	// MAC is the store's.
	MAC func(purpose string, data []byte) []byte
	// Version is that of the controller.
	Version string
	// Times that are zero have their defaults.
	Times Times
	Now   func() time.Time
	Log   *slog.Logger
}

// UI answers the requests below /ui/.
type UI struct {
	Options
	// refused is the sign-ins that were refused, by the network that they came from.
	refused *ratelimit.Limiter[netip.Prefix]
	origin  *http.CrossOriginProtection
	// turns has one for each page that is made now: half as many as there are processors, so that
	// agents and API have the others.
	turns chan struct{}
}

// New makes a UI.
func New(o Options) *UI {
	if o.Times == (Times{}) {
		o.Times = usualTimes
	}
	return &UI{Options: o, refused: ratelimit.New[netip.Prefix](refusedEvery, refusedBurst, maxNetworks), origin: http.NewCrossOriginProtection(),
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Scheme is what a route asks of its caller.
type Scheme string

// The schemes.
const (
	// Open asks for nothing.
	Open Scheme = "open"
	// SignedIn asks for the cookie of a session: Authenticate.
	SignedIn Scheme = "session"
	// SigningIn asks for an API token in the body; Serve checks it.
	SigningIn Scheme = "sign-in"
)

// Route is one route. The caller of Serve has checked what Scheme asks for, and has put the
// parameters of Path into the request.
type Route struct {
	// Name is that of the operation in metrics and in the log.
	Name string
	// Path is in echo's grammar. HEAD is answered where GET is, unless it is a stream.
	Method, Path string
	Scheme       Scheme
	// Stream says that the answer does not end by itself.
	Stream bool
	// Serve answers, or returns an error before it has written anything: Refuse answers that. The
	// session is the zero Session unless the Scheme is SignedIn.
	Serve func(w http.ResponseWriter, r *http.Request, s Session) error
}

// Routes are all routes.
func (u *UI) Routes() []Route {
	routes := []Route{
		{Name: "ui.root", Method: http.MethodGet, Path: "/", Scheme: Open, Serve: redirectToOverview},
		{Name: "ui.root", Method: http.MethodGet, Path: "/ui", Scheme: Open, Serve: redirectToOverview},
		{Name: "ui.asset", Method: http.MethodGet, Path: page.PathAsset, Scheme: Open, Serve: asset},
		{Name: "ui.signInForm", Method: http.MethodGet, Path: page.PathSignIn, Scheme: Open, Serve: u.signInForm},
		{Name: "ui.signIn", Method: http.MethodPost, Path: page.PathSignIn, Scheme: SigningIn, Serve: u.signIn},
		{Name: "ui.signOut", Method: http.MethodPost, Path: page.PathSignOut, Scheme: SignedIn, Serve: u.signOut},
		{Name: "ui.events", Method: http.MethodGet, Path: page.PathEvents, Scheme: SignedIn, Stream: true, Serve: u.stream},
	}
	for _, view := range []struct {
		name, path string
		read       func(*http.Request) (page.View, error)
	}{
		{"ui.overview", page.PathOverview, u.overview},
		{"ui.instances", page.PathInstances, u.instances},
		{"ui.instance", page.PathInstance, u.instance},
		{"ui.nodes", page.PathNodes, u.nodes},
		{"ui.node", page.PathNode, u.node},
		{"ui.operations", page.PathOperations, u.operations},
		{"ui.operation", page.PathOperation, u.operation},
		{"ui.volumes", page.PathVolumes, u.volumes},
		{"ui.volume", page.PathVolume, u.volume},
		{"ui.registries", page.PathRegistries, u.registries},
		{"ui.history", page.PathHistory, u.history},
	} {
		routes = append(routes, Route{Name: view.name, Method: http.MethodGet, Path: view.path, Scheme: SignedIn, Serve: u.shown(view.read)})
	}
	for i := range routes {
		routes[i].Serve = u.guarded(routes[i].Serve)
	}
	return routes
}

// guarded refuses what another site has the browser send, and restricts what the browser does with
// the answer. Most such requests have no session: its cookie is SameSite=Strict.
func (u *UI) guarded(serve func(http.ResponseWriter, *http.Request, Session) error) func(http.ResponseWriter, *http.Request, Session) error {
	return func(w http.ResponseWriter, r *http.Request, s Session) error {
		if err := u.origin.Check(r); err != nil {
			return api.NewProblem(api.ProblemForbidden, "the request comes from a page of another site ("+err.Error()+"); open "+page.PathOverview+" and repeat it there")
		}
		restrict(w.Header())
		return serve(w, r, s)
	}
}

func redirectToOverview(w http.ResponseWriter, r *http.Request, _ Session) error {
	http.Redirect(w, r, page.PathOverview, http.StatusSeeOther)
	return nil
}
