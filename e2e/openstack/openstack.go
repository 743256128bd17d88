// Package openstack runs a real OpenStack in a lab: Keystone, Heat (engine, API and
// CloudFormation API), Nova with its metadata service, Neutron, Cinder, Glance and
// Placement as Debian ships them, on MariaDB and RabbitMQ. What they manage is not
// there: Nova's driver is its own fake one, Cinder's drivers do nothing, and ports are
// bound by no agent. The machines are the lab's: one that has the fixed address and the
// user_data of a server in Nova is that server.
//
//	openstack.Build(ctx, "", log) // minutes, once; `make openstack` does it
//	cloud, err := openstack.Start(ctx, lab, openstack.Options{})
//	defer cloud.Close()
//	account, err := cloud.NewAccount(ctx, "tenant")
//	id, err := account.CreateStack(ctx, openstack.Template{Name: "cluster", Text: text})
//	stack, err := account.WaitStack(ctx, id)
//	userData, err := cloud.UserData(ctx, serverID)
//
// Tests use package openstacktest, which skips if OpenStack is not asked for.
package openstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// AuthURL is where Keystone is reached, in the lab's network.
const AuthURL = "http://" + host + ":5000/v3"

// host is lab.Gateway; the files below rootfs name it as well.
const host = "10.10.0.1"

// What stacks refer to by name.
const (
	Image  = "lab"
	Flavor = "lab.small"
	// Network and its subnet have the lab's own addresses. Neutron assigns 10.10.0.32 to
	// 239.
	Network = "lab"
	// ExternalNetwork has addresses of 203.0.113.0/24 that can be floating ones.
	ExternalNetwork = "public"
)

// Options of a cloud. The zero value is good for tests.
type Options struct {
	// Cache holds the built images; empty means $NODEHITCH_CACHE or image.DefaultCache.
	Cache string
	// Settings are lines that are added to a service's configuration, by the name of
	// its file in /etc/lab, such as "keystone": "[token]\nexpiration = 5".
	Settings map[string]string
	// Log receives progress, one line per call; nil means silence.
	Log func(format string, args ...any)
}

// Cloud is a running OpenStack. Its services may be stopped, killed, paused and started
// again: see Service.
type Cloud struct {
	// Admin may do everything.
	Admin *Account

	lab      *lab.Lab
	o        Options
	dir      string
	images   *images
	root     *root
	services []*Service
	client   *http.Client
	proxy    *http.Server
}

// Start starts a cloud in the network of a lab, which takes one of them, and returns
// when all of it is ready. It outlives ctx, but not this process: Close ends it. The
// images must have been built.
func Start(ctx context.Context, l *lab.Lab, o Options) (*Cloud, error) {
	found, err := find(o.Cache)
	if err != nil {
		return nil, err
	}
	c := newCloud(l, o, found)
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting OpenStack: %w", err), c.Close())
	}
	return c, nil
}

func newCloud(l *lab.Lab, o Options, i *images) *Cloud {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	c := &Cloud{lab: l, o: o, dir: filepath.Join(l.Dir(), "openstack"), images: i}
	c.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return l.Dial(ctx, network, address)
		},
		// A service that was restarted has forgotten its connections.
		DisableKeepAlives: true,
	}}
	c.Admin = &Account{Name: "admin", Project: "admin", password: password, cloud: c}
	c.services = c.describeServices()
	return c
}

func (c *Cloud) start(ctx context.Context) error {
	began := time.Now()
	if err := c.enter(ctx, c.images.ready, c.images.root); err != nil {
		return err
	}
	if err := c.startServices(ctx); err != nil {
		return err
	}
	if err := c.serveMetadata(ctx); err != nil {
		return err
	}
	c.o.Log("OpenStack: ready after %.1f s", time.Since(began).Seconds())
	return nil
}

// enter makes the folders, adds the settings, and starts the first process.
func (c *Cloud) enter(ctx context.Context, layers ...string) error {
	if err := os.MkdirAll(c.logDir(), 0o700); err != nil {
		return err
	}
	for name, lines := range c.o.Settings {
		path := filepath.Join("etc/lab", name+".conf")
		// The uppermost layer has the file: enter.sh lays the others below.
		text, err := os.ReadFile(filepath.Join(layers[0], path))
		if err != nil {
			return fmt.Errorf("settings for %s: %w", name, err)
		}
		path = filepath.Join(c.dir, "upper", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, fmt.Appendf(text, "\n%s\n", lines), 0o644); err != nil {
			return err
		}
	}
	var err error
	c.root, err = enterRoot(ctx, c.lab, c.dir, layers)
	return err
}

func (c *Cloud) logDir() string { return filepath.Join(c.dir, "log") }

// Services are all of the cloud's.
func (c *Cloud) Services() []*Service { return slices.Clone(c.services) }

// Service is the one of this name, such as "heat-api"; nil if there is none.
func (c *Cloud) Service(name string) *Service {
	for _, s := range c.services {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Close ends all of it at once. Logs stay as long as the lab. It may be called again.
func (c *Cloud) Close() error {
	var errs []error
	if c.proxy != nil {
		errs = append(errs, c.proxy.Close())
	}
	if c.root != nil {
		errs = append(errs, c.root.end())
	}
	return errors.Join(append(errs, c.images.close())...)
}
