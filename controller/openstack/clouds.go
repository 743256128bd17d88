package openstack

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

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
	// Observe is called after each attempt at a call, nil for nobody. status is 0
	// where no answer came.
	Observe func(service, call string, status int)
}

// Clouds is every cloud that instances have. Its methods may be called at the same
// time.
type Clouds struct{ options Options }

// New checks the entry of the clouds file, where one is named, and connects to
// nothing.
func New(o Options) (*Clouds, error) { return &Clouds{options: o}, nil }

// For is the cloud of an instance with this vimConnectionInfo, nil for none. It
// connects to nothing yet. ErrNoCloud where neither the vimConnectionInfo nor the
// configuration names one; an *api.Problem with the faults of the vimConnectionInfo.
func (c *Clouds) For(ctx context.Context, vim json.RawMessage) (*Cloud, error) {
	return nil, ErrNoCloud
}
