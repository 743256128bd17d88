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

// HistoryPath is the file of what this controller has seen of the shared store.
func HistoryPath(dataDirectory string) string { return filepath.Join(dataDirectory, "history.json") }

// Name names the store for errors, and for the mark of one whose state was moved to it.
func Name(e config.Etcd) string {
	return "etcd at " + strings.Join(e.Endpoints, ", ") + ", " + e.Prefix
}

// Connect is a client of the etcd of the configuration.
func Connect(c config.Config, log *slog.Logger) (*etcd.Client, error) {
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

// LockDirectory keeps a second process out of the data directory, which bbolt does for a
// store of one controller alone.
func LockDirectory(path string) (release func() error, err error) {
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
// store of its own. No controller may run with the same data directory. What is held ends
// with the process.
func Opener(c config.Config) func(context.Context) (*store.Shared, error) {
	if !c.Store.Etcd.Configured() {
		return nil
	}
	return func(ctx context.Context) (*store.Shared, error) {
		release, err := LockDirectory(c.DataDirectory)
		if err != nil {
			return nil, err
		}
		history, err := store.OpenHistory(HistoryPath(c.DataDirectory))
		if err != nil {
			return nil, err
		}
		client, err := Connect(c, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		term, err := client.Campaign(ctx, nil)
		if err != nil {
			return nil, err
		}
		return &store.Shared{Term: locked{term, release}, History: history, Name: Name(c.Store.Etcd)}, nil
	}
}

// locked is a term in which this process alone uses the data directory.
type locked struct {
	*etcd.Term
	release func() error
}

func (l locked) Close() error { return errors.Join(l.Term.Close(), l.release()) }

// GiveHistory gives what a command has noted, as root perhaps, to the owner of the data
// directory, whose controller reads it.
func GiveHistory(dataDirectory string) error {
	owner := new(unix.Stat_t)
	if err := unix.Stat(dataDirectory, owner); err != nil {
		return err
	}
	err := os.Lchown(HistoryPath(dataDirectory), int(owner.Uid), int(owner.Gid))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
