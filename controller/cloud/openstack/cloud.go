package openstack

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Cloud is one project of one cloud, by one credential. It logs in at the first call,
// and again when its token has expired. Errors of its methods are *Error, or that of
// the context. Its methods may be called at the same time.
type Cloud struct {
	name       string
	credential credential
	transport  *transport
	// used is when it was asked for last, by the clock of Clouds.
	used uint64
	// wrote says that Nova has let the credential write metadata.
	wrote atomic.Bool

	// turn is locked during the login, which sets what follows once.
	turn      chan struct{}
	loggedIn  bool
	provider  *gophercloud.ProviderClient
	projectID string
}

func newCloud(c credential, name string, o Options) (*Cloud, error) {
	base, err := connections(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	cloud := &Cloud{name: name, credential: c, turn: make(chan struct{}, 1),
		transport: &transport{base: base, timeout: o.Timeout, pause: firstPause, observe: o.Observe}}
	if cloud.provider, err = openstack.NewClient(c.AuthURL); err != nil {
		return nil, fmt.Errorf("%s: its URL is not valid", name)
	}
	cloud.provider.HTTPClient = http.Client{Transport: cloud.transport, CheckRedirect: sameHost}
	cloud.provider.UserAgent.Prepend("nodehitch-controller")
	return cloud, nil
}

// sameHost follows a redirect only to where the token was meant for.
func sameHost(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > 3 || req.URL.Scheme != from.Scheme || req.URL.Host != from.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Name says which cloud it is, for messages: where its credential comes from, and the
// host of its Keystone.
func (c *Cloud) Name() string { return c.name }

// String is Name, and so is what any verb and any log makes of a Cloud: it has secrets.
func (c *Cloud) String() string { return c.name }

// GoString is Name.
func (c *Cloud) GoString() string { return c.name }

// LogValue is Name.
func (c *Cloud) LogValue() slog.Value { return slog.StringValue(c.name) }

// Project is the id of the project that the credential is for, as its token says: no
// call if the cloud is logged in to.
func (c *Cloud) Project(ctx context.Context) (string, error) {
	if err := c.login(ctx); err != nil {
		return "", err
	}
	return c.projectID, nil
}

// login fetches the first token. A caller that comes meanwhile waits for it.
func (c *Cloud) login(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.loggedIn {
		return nil
	}
	at := called{identity, loginCall}
	ctx, cancel := c.alone(ctx)
	defer cancel()
	if err := openstack.AuthenticateV3(ctx, c.provider, c.credential.auth(), gophercloud.EndpointOpts{}); err != nil {
		return c.wrap(at, err)
	}
	result, ok := c.provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return c.wrap(at, said("the answer has no token"))
	}
	project, err := result.ExtractProject()
	if err != nil || project == nil || project.ID == "" {
		return c.wrap(at, said("the token is of no project; give the project that has the stacks"))
	}
	again := c.provider.ReauthFunc
	c.provider.ReauthFunc = func(ctx context.Context) error {
		ctx, cancel := c.alone(ctx)
		defer cancel()
		return again(ctx)
	}
	c.projectID, c.loggedIn = project.ID, true
	return nil
}

// alone is a context for a login, which does not end with the one call that began it:
// others wait for it too.
func (c *Cloud) alone(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 2*c.transport.timeout+time.Second)
}

func (c *Cloud) availability() gophercloud.Availability {
	if c.credential.Interface == "" {
		return gophercloud.AvailabilityPublic
	}
	return gophercloud.Availability(c.credential.Interface)
}

func (c *Cloud) noEndpoint() string {
	where := "the catalog"
	if c.credential.Region != "" {
		where += fmt.Sprintf(" for region %q", c.credential.Region)
	}
	return fmt.Sprintf("%s has no %s endpoint of this service; check the region and the interface of the credential, and that the cloud has the service",
		where, c.availability())
}
