// Package archive is the file format of a backup: a tar stream with checksums, so that a
// reader notices any damage. It checks the format, not the content of the store.
//
//	manifest.json     what this is a backup of
//	records.jsonl     the records as of one moment, by line; in format 1 store.db, a bbolt file
//	blobs/<sha256>    each package file that the records name
//	checksums         the SHA-256 of each entry above, as sha256sum(1) writes it,
//	                  and a MAC over those lines under the controller's seal key
//
// A stream that was cut off has no `checksums`; one that was changed does not fit it,
// or has no MAC of the controller.
package archive

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Format is the version of the form that is written. FormatDatabase is that of before, which
// is read.
const (
	FormatDatabase = 1
	Format         = 2
)

// The names of the entries.
const (
	manifestName  = "manifest.json"
	databaseName  = "store.db"
	recordsName   = "records.jsonl"
	blobPrefix    = "blobs/"
	checksumsName = "checksums"
	macPrefix     = "# hmac-sha256 "
)

// Manifest says what a backup is of.
type Manifest struct {
	// Format is the version of the form.
	Format int `json:"format"`
	// ControllerVersion made it, Schema is that of its store.
	ControllerVersion string `json:"controllerVersion"`
	Schema            int    `json:"schema"`
	// KeyID names the seal key that the store is sealed with; no backup has the key.
	KeyID string `json:"keyId"`
	// Epoch is the life of the state, TakenAt the moment that it was copied.
	Epoch   int64     `json:"epoch"`
	TakenAt time.Time `json:"takenAt"`
	// StoreBytes is the size of the records, PackageFiles and PackageFileBytes how many
	// package files there are and their size together.
	StoreBytes       int64 `json:"storeBytes"`
	PackageFiles     int   `json:"packageFiles"`
	PackageFileBytes int64 `json:"packageFileBytes"`
	// Excluded is what is not in it and has to be kept apart.
	Excluded []Excluded `json:"excluded"`
}

// Excluded is something without which a backup is worth nothing.
type Excluded struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// storeName is the entry of the records.
func (m Manifest) storeName() string {
	if m.Format == FormatDatabase {
		return databaseName
	}
	return recordsName
}

// blobName is the entry of a package file.
func blobName(sha256 string) string { return blobPrefix + sha256 }

// blobDigest is the SHA-256 in the name of an entry, false if it has none.
func blobDigest(name string) (string, bool) {
	digest, ok := strings.CutPrefix(name, blobPrefix)
	raw, err := hex.DecodeString(digest)
	return digest, ok && err == nil && len(raw) == 32 && digest == strings.ToLower(digest)
}

func sumLine(sum []byte, name string) string { return fmt.Sprintf("%x  %s\n", sum, name) }
