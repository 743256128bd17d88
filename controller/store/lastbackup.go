package store

import "time"

// LastBackup is the last complete backup.
type LastBackup struct {
	// TakenAt is the moment whose state the backup has.
	TakenAt time.Time `json:"takenAt"`
}

// LastBackup is the last complete backup, false before the first. In an epoch that began with a
// restore, the backup that was restored is one.
func (t *Tx) LastBackup() (LastBackup, bool, error) {
	b, found, err := getMeta[LastBackup](t.reader, metaBackup)
	if err != nil {
		return b, found, err
	}
	o, restored, err := getMeta[Origin](t.reader, metaOrigin)
	if restored && o.TakenAt.After(b.TakenAt) {
		b.TakenAt, found = o.TakenAt, true
	}
	return b, found, err
}

// PutLastBackup writes it, unless a later one is on record: two may be taken at the same time.
func (t *Tx) PutLastBackup(b LastBackup) error {
	if t.writer == nil {
		return errReadOnly
	}
	last, _, err := getMeta[LastBackup](t.reader, metaBackup)
	if err != nil || last.TakenAt.After(b.TakenAt) {
		return err
	}
	return putMeta(t.writer, metaBackup, b)
}
