package pki

import (
	"fmt"

	"github.com/nodehitch/nodehitch/controller/store"
)

// records is the storage of controllers that share a store: one sealed record for each pair.
type records struct{ store *store.Store }

const inRecords = "the store" // place of an error

func (r records) requireRoot() error {
	found, err := r.read()
	if err == nil && found.root == nil {
		err = fmt.Errorf("%s is missing in the store, and the store has instances, whose agents trust no other root: restore a backup that has it (docs/backup.md); nothing has been changed", rootFile)
	}
	return err
}

func (r records) read() (found pairs, err error) {
	err = r.store.View(func(tx *store.Tx) error {
		found, err = r.all(tx)
		return err
	})
	return found, err
}

func (r records) all(tx *store.Tx) (found pairs, err error) {
	names, err := tx.Authority().Keys("")
	if err != nil {
		return found, err
	}
	for _, name := range names {
		p, err := r.get(tx, name)
		switch {
		case err != nil:
			return found, err
		case name == rootFile:
			found.root = p
		default:
			found.intermediates = append(found.intermediates, p)
		}
	}
	found.sort()
	return found, found.check(inRecords)
}

// get returns nil if there is no such record.
func (r records) get(tx *store.Tx, name string) (*pair, error) {
	record, there, err := tx.Authority().Get(name)
	if err != nil || !there {
		return nil, err
	}
	content, err := r.store.Unseal(record.PEM)
	if err != nil {
		return nil, fmt.Errorf("the record of %s: %w", name, err)
	}
	p, err := parsePair(content)
	if err != nil {
		return nil, fmt.Errorf("the record of %s is damaged (%w): restore a backup", name, err)
	}
	return p, nil
}

// write replaces no certificate by another one: a controller that has not seen what another
// one has made fails here.
func (r records) write(name string, p *pair) error {
	content, err := p.encode()
	if err != nil {
		return fmt.Errorf("writing the record of %s: %w", name, err)
	}
	sealed, err := r.store.Seal(content)
	if err != nil {
		return fmt.Errorf("writing the record of %s: %w", name, err)
	}
	return r.store.Update(func(tx *store.Tx) error {
		before, err := r.get(tx, name)
		if err != nil {
			return err
		}
		if before != nil && !before.cert.Equal(p.cert) {
			return fmt.Errorf("the store has another %s than this controller would write: start the controller again; nothing has been changed", name)
		}
		if err := tx.Authority().Put(name, store.AuthorityPair{PEM: sealed}); err != nil {
			return err
		}
		_, err = r.all(tx)
		return err
	})
}

func (r records) remove(name string) error {
	return r.store.Update(func(tx *store.Tx) error { return tx.Authority().Delete(name) })
}
