package pki

import (
	"fmt"
	"slices"

	"github.com/nodehitch/nodehitch/controller/store"
)

// CopyToStore adds the root and the intermediates in the directory of a controller alone to
// the records of a shared store, for controllers that go on with its state. It refuses a
// directory whose parts do not belong together or whose root has no key, and records with
// another root. One that was killed is called again. The directory stays as it is.
func CopyToStore(dir string, s *store.Store) error {
	from := directory(dir)
	found, err := from.read()
	if err == nil && found.root != nil && found.root.key == nil {
		err = fmt.Errorf("%s holds no private key: put it back into the file first; controllers that share a store have it there", from.path(rootFile))
	}
	if err == nil {
		err = add(found, records{s}, inRecords)
	}
	if err != nil {
		return fmt.Errorf("copying the certificate authority from %s to the store: %w", dir, err)
	}
	return nil
}

// MoveToDirectory adds the root and the intermediates in the records of a store to the
// directory, which is made when it is missing, and then deletes the records: for a controller
// alone that goes on with the state of a shared store. It refuses records whose parts do not
// belong together, and a directory with another root; then nothing has been changed. One that
// was killed is called again. Without records it does nothing.
func MoveToDirectory(s *store.Store, dir string) error {
	from := records{s}
	found, err := from.read()
	if err == nil && found.root == nil {
		return nil
	}
	if err == nil {
		err = prepareDir(dir)
	}
	if err == nil {
		err = add(found, directory(dir), "the directory")
	}
	if err == nil {
		err = s.Update(func(tx *store.Tx) error {
			names, err := tx.Authority().Keys("")
			for _, name := range names {
				if err == nil {
					err = tx.Authority().Delete(name)
				}
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("moving the certificate authority from the store to %s: %w", dir, err)
	}
	return nil
}

// add writes what the storage does not have yet, the root first. A pair that it has without
// the key gets it. The place is that of the storage, for errors.
func add(found pairs, to storage, place string) error {
	if found.root == nil {
		return fmt.Errorf("there is no %s", rootFile)
	}
	there, err := to.read()
	if err != nil {
		return err
	}
	if there.root != nil && !found.sameRoot(there) {
		return fmt.Errorf("%s has another root, with the serial number %s instead of %s, and agents trust only their own: nothing has been changed",
			place, serialText(there.root.cert.SerialNumber), serialText(found.root.cert.SerialNumber))
	}
	if err := put(to, rootFile, there.root, found.root); err != nil {
		return err
	}
	for _, p := range found.intermediates {
		at := slices.IndexFunc(there.intermediates, func(q *pair) bool { return q.cert.Equal(p.cert) })
		var has *pair
		if at >= 0 {
			has = there.intermediates[at]
		}
		if err := put(to, intermediateFile(p.cert), has, p); err != nil {
			return err
		}
	}
	return nil
}

// put writes the pair unless has, nil for none, is as good.
func put(to storage, name string, has, p *pair) error {
	if has != nil && (has.key != nil || p.key == nil) {
		return nil
	}
	return to.write(name, p)
}
