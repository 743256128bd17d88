// Package sharing opens the store that controllers share in an etcd, from a controller's
// configuration.
package sharing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
)

// historyPath is the file of what this controller has seen of the shared store.
func historyPath(dataDirectory string) string { return filepath.Join(dataDirectory, "history.json") }

// Name names the store for errors, and for the mark of one whose state was moved to it.
func Name(e config.Etcd) string {
	return "etcd at " + strings.Join(e.Endpoints, ", ") + ", " + e.Prefix
}

// Place is where a controller has its part of the shared store. No other process uses the data
// directory until Close.
type Place struct {
	Client  *etcd.Client
	History *store.History
	unlock  func() error
}

// Open opens the place of the configuration. It does not wait for etcd.
func Open(c config.Config, log *slog.Logger) (p *Place, err error) {
	p = &Place{}
	if p.unlock, err = lockDirectory(c.DataDirectory); err != nil {
		return nil, err
	}
	p.History, err = store.OpenHistory(historyPath(c.DataDirectory))
	if err == nil {
		p.Client, err = connect(c, log)
	}
	if err != nil {
		return nil, errors.Join(err, p.unlock())
	}
	return p, nil
}

// Close ends the connection to etcd, then the lock.
func (p *Place) Close() error { return errors.Join(p.Client.Close(), p.unlock()) }

func connect(c config.Config, log *slog.Logger) (*etcd.Client, error) {
	e := c.Store.Etcd
	files := etcd.Files{CA: e.CA, Cert: e.Cert, Key: e.Key, Password: e.PasswordFile}
	password, err := files.ReadPassword()
	if err != nil {
		return nil, err
	}
	certificates, err := files.TLS()
	if err != nil {
		return nil, err
	}
	return etcd.New(etcd.Options{Endpoints: e.Endpoints, Prefix: e.Prefix, TLS: certificates, Username: e.Username, Password: password,
		Name: c.Replica.ID, Log: log}), nil
}

// lockDirectory keeps a second process out of the data directory, which bbolt does for a
// store of one controller alone.
func lockDirectory(path string) (unlock func() error, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	if err := syscall.Flock(int(directory.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the data directory %s: %w: another controller is running with it: stop it, or set another dataDirectory", path, err), directory.Close())
	}
	return directory.Close, nil
}

// Opener becomes the leader of the store of the configuration, nil if the controller has a
// store of its own. No controller may run with the same data directory. The place is closed
// with the term.
func Opener(c config.Config) func(context.Context) (*store.Shared, error) {
	if !c.Store.Etcd.Configured() {
		return nil
	}
	return func(ctx context.Context) (*store.Shared, error) {
		place, err := Open(c, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		term, err := place.Client.Campaign(ctx, nil)
		if err != nil {
			return nil, errors.Join(err, place.Close())
		}
		return &store.Shared{Term: placed{term, place}, History: place.History, Name: Name(c.Store.Etcd)}, nil
	}
}

// placed is a term that has the place for itself.
type placed struct {
	*etcd.Term
	place *Place
}

func (p placed) Close() error { return errors.Join(p.Term.Close(), p.place.Close()) }

// GiveHistory gives what a command has noted, as root perhaps, to the owner of the data
// directory, whose controller reads it.
func GiveHistory(dataDirectory string) error {
	owner := new(unix.Stat_t)
	if err := unix.Stat(dataDirectory, owner); err != nil {
		return err
	}
	err := os.Lchown(historyPath(dataDirectory), int(owner.Uid), int(owner.Gid))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
