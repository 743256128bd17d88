package openstack

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/fault"
)

// mostKept is how many credentials are kept logged in. One that was dropped logs in
// again.
const mostKept = 64

// Options say which clouds there are.
type Options struct {
	// CloudsFile is a clouds.yaml; Cloud its entry for instances that bring no
	// credential of their own, "" for none.
	CloudsFile, Cloud string
	// UseVIM has the credential in an instance's vimConnectionInfo used, before Cloud.
	UseVIM bool
	// Timeout is how long one attempt at a call may take. A call with all its attempts
	// takes no more than twice as long.
	Timeout time.Duration
	Log     *slog.Logger
	// Observe is called after each attempt at a call, if it is not nil. call is one of a
	// few, such as "GET /servers/detail"; status is 0 if no answer came.
	Observe func(service, call string, status int)
}

// Clouds is every cloud that instances have. Its methods may be called at the same
// time.
type Clouds struct {
	options Options
	// key makes the fingerprints of credentials.
	key  []byte
	mu   sync.Mutex
	kept map[[sha256.Size]byte]*Cloud
	// clock orders the uses of what is kept.
	clock uint64
}

// New checks the entry of the clouds file, if one is named, and connects to
// nothing.
func New(o Options) (*Clouds, error) {
	if o.Observe == nil {
		o.Observe = func(string, string, int) {}
	}
	c := &Clouds{options: o, key: make([]byte, sha256.Size), kept: map[[sha256.Size]byte]*Cloud{}}
	if _, err := rand.Read(c.key); err != nil {
		return nil, fmt.Errorf("making a key for fingerprints: %w", err)
	}
	if o.Cloud == "" {
		return c, nil
	}
	named, err := c.For(context.Background(), nil)
	if err == nil && named.credential.Unverified {
		o.Log.Warn("any certificate is accepted as the cloud's, because its entry has verify: false", "cloud", named.Name())
	}
	return c, err
}

// For is the cloud of an instance with this vimConnectionInfo, nil for none. It
// connects to nothing yet. ErrNoCloud if neither the vimConnectionInfo nor the
// configuration names one; an *api.Problem with the faults of the vimConnectionInfo;
// any other error is of the clouds file, which is read each time.
func (c *Clouds) For(_ context.Context, vim json.RawMessage) (*Cloud, error) {
	if c.options.UseVIM {
		found, err := fromVIM(vim, fault.Root.Key("vimConnectionInfo"))
		var faults fault.List
		switch {
		case err == nil:
			return c.of(found, "the cloud at "+host(found.AuthURL)+" (vimConnectionInfo)")
		case errors.As(err, &faults):
			return nil, api.NewInvalid(faults)
		}
	}
	if c.options.Cloud == "" {
		return nil, ErrNoCloud
	}
	found, err := readEntry(c.options.CloudsFile, c.options.Cloud)
	if err != nil {
		return nil, err
	}
	return c.of(found, fmt.Sprintf("the cloud %q at %s", c.options.Cloud, host(found.AuthURL)))
}

// of is the one Cloud of a credential, so that its users share its token.
func (c *Clouds) of(found credential, name string) (*Cloud, error) {
	id := found.fingerprint(c.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	if known, ok := c.kept[id]; ok {
		known.used = c.clock
		return known, nil
	}
	cloud, err := newCloud(found, name, c.options)
	if err != nil {
		return nil, err
	}
	cloud.used = c.clock
	c.kept[id] = cloud
	if len(c.kept) > mostKept {
		c.dropOldest()
	}
	return cloud, nil
}

func (c *Clouds) dropOldest() {
	var oldest [sha256.Size]byte
	var least *Cloud
	for id, cloud := range c.kept {
		if least == nil || cloud.used < least.used {
			oldest, least = id, cloud
		}
	}
	delete(c.kept, oldest)
	least.transport.base.CloseIdleConnections()
}
