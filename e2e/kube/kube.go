// Package kube runs a real Kubernetes API for tests: etcd, kube-apiserver, and of
// kube-controller-manager what binds and protects PersistentVolumes. Unless the test makes
// them, there are no nodes and no pods. It runs on this machine, or in a lab, where machines reach it
// as they would reach the API server on a master.
//
//	kube.Build(ctx, "", log) // minutes, once; `make kube` does it
//	c, err := kube.Start(ctx, kube.Options{Dir: dir, Lab: lab})
//	defer c.Close()
//	admin, err := c.Kubeconfig(kube.Admin, kube.Masters)
//	err = master.Push(ctx, "/etc/kubernetes/admin.conf", 0o600, admin)
//	phase, err := c.Kubectl(ctx, "get", "pv", "pv1", "-o", "jsonpath={.status.phase}")
//
// Tests use package kubetest, which skips if the programs are not built.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Options of a cluster. Dir is required.
type Options struct {
	// Dir holds the store, keys and logs: a folder of the cluster's own.
	Dir string
	// Lab is where it runs; nil means this machine.
	Lab *lab.Lab
	// Address is where the API server listens; its zero value means lab.Gateway:6443
	// in a lab, which takes one such cluster, and a free address of 127.0.0.0/8 elsewhere.
	Address netip.AddrPort
	// Names are further names and addresses by which clients may reach it.
	Names []string
	// Controllers are further controllers of kube-controller-manager, such as
	// "disruption-controller".
	Controllers []string
	// Members: machines may join. The API server notes requests in AuditLog; of
	// kube-controller-manager run what signs the certificates of kubelets, makes Pods and
	// minds PodDisruptionBudgets. No scheduler and no kubelet runs.
	Members bool
	// Cache holds the programs; empty means $NODEHITCH_CACHE or image.DefaultCache.
	Cache string
}

// Cluster is a running Kubernetes API. Its programs may be ended in any order and
// started again; what they store outlives them. A controller manager that finds no
// API server at its start ends after ten seconds.
type Cluster struct {
	Etcd, APIServer, ControllerManager *Program
	// URL of the API server.
	URL string

	o         Options
	binaries  *Binaries
	authority *authority
}

// Start starts a cluster and returns when its API server is ready. It outlives
// ctx, but not this process: Close ends it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	binaries, err := Find(o.Cache)
	if err != nil {
		return nil, err
	}
	c := &Cluster{o: o, binaries: binaries}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a Kubernetes API: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return err
	}
	if c.o.Dir, err = filepath.Abs(c.o.Dir); err != nil {
		return err
	}
	if err := c.takeAddress(ctx); err != nil {
		return err
	}
	c.URL = "https://" + c.o.Address.String()
	if err := c.writeFiles(); err != nil {
		return err
	}
	if err := c.describePrograms(ctx); err != nil {
		return err
	}
	for _, p := range c.Programs() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) takeAddress(ctx context.Context) (err error) {
	switch {
	case c.o.Address.IsValid():
	case c.o.Lab != nil:
		c.o.Address = netip.AddrPortFrom(lab.Gateway, 6443)
	default:
		c.o.Address, err = c.free(ctx, randomLoopback())
	}
	return err
}

// Programs are those of the cluster in the order in which they start.
func (c *Cluster) Programs() []*Program {
	return []*Program{c.Etcd, c.APIServer, c.ControllerManager}
}

// Binary is the path of one of the programs, such as kubectl. It is static: it
// runs on a machine, too.
func (c *Cluster) Binary(name string) string { return filepath.Join(c.binaries.Dir, name) }

// Close ends the programs that still run. What they have stored and logged stays in Options.Dir.
func (c *Cluster) Close() error {
	// In the opposite order of their start, so that none waits for another one in vain.
	for _, p := range []*Program{c.ControllerManager, c.APIServer, c.Etcd} {
		if p != nil {
			p.Stop()
		}
	}
	return c.binaries.Close()
}

// free is a free port of an address. The address is the cluster's own, so that no other
// program takes the port before its program does.
func (c *Cluster) free(ctx context.Context, address netip.Addr) (netip.AddrPort, error) {
	listen := new(net.ListenConfig).Listen
	if c.o.Lab != nil {
		listen = c.o.Lab.Listen
	}
	l, err := listen(ctx, "tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return netip.AddrPort{}, err
	}
	taken, err := netip.ParseAddrPort(l.Addr().String())
	return taken, cmp.Or(err, l.Close())
}
