package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// A value lies in its bucket as JSON and sumSize bytes behind it: the CRC-32C of
// bucket, key and JSON, big-endian. bbolt sums up nothing but its two headers, so
// without this a byte that a disk or memory has changed inside a value would be
// believed. It is no defence against who can write the file.
const sumSize = crc32.Size

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errSum     = errors.New("its checksum does not fit")
)

func sumOf(bucket string, key, text []byte) []byte {
	sum := crc32.Checksum([]byte(bucket), castagnoli)
	for _, part := range [][]byte{{0}, key, {0}, text} {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return binary.BigEndian.AppendUint32(nil, sum)
}

// summed is the value that stands for the text.
func summed(bucket string, key, text []byte) []byte {
	return append(bytes.Clone(text), sumOf(bucket, key, text)...)
}

// textOf is the text of a value, which it shares. Its error is a *CorruptError.
func textOf(bucket string, key, value []byte) ([]byte, error) {
	at := len(value) - sumSize
	if at < 0 || !bytes.Equal(value[at:], sumOf(bucket, key, value[:at])) {
		return nil, &CorruptError{Bucket: bucket, Key: string(key), Err: errSum}
	}
	return value[:at], nil
}

// addChecksums is the migration to schemaOfSums.
func addChecksums(tx *bbolt.Tx) error {
	for _, bucket := range recordBuckets {
		err := change(tx, bucket, func(key, value []byte) ([]byte, error) {
			if !json.Valid(value) {
				return nil, &CorruptError{Bucket: bucket, Key: string(key), Err: errors.New("it is not JSON")}
			}
			return summed(bucket, key, value), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rewrite is a migration of the records of one bucket, for versions after
// schemaOfSums: with gets the JSON of each record and returns its new JSON.
func rewrite(bucket string, with func(key, text []byte) ([]byte, error)) migration {
	return func(tx *bbolt.Tx) error {
		return change(tx, bucket, func(key, value []byte) ([]byte, error) {
			text, err := textOf(bucket, key, value)
			if err == nil {
				text, err = with(key, text)
			}
			if err != nil {
				return nil, err
			}
			return summed(bucket, key, text), nil
		})
	}
}

// change puts another value in the place of each. bbolt wants no bucket changed
// while it is gone through, so the keys are collected before.
func change(tx *bbolt.Tx, bucket string, with func(key, value []byte) ([]byte, error)) error {
	b := tx.Bucket([]byte(bucket))
	var keys [][]byte
	if err := b.ForEach(func(key, _ []byte) error { keys = append(keys, bytes.Clone(key)); return nil }); err != nil {
		return err
	}
	for _, key := range keys {
		value, err := with(key, b.Get(key))
		if err != nil {
			return err
		}
		if err := b.Put(key, value); err != nil {
			return err
		}
	}
	return nil
}

// verifyRecords looks at every value of a store that has checksums.
func verifyRecords(tx *bbolt.Tx) error {
	for _, bucket := range recordBuckets {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return fmt.Errorf("its bucket %q is missing: restore a backup", bucket)
		}
		err := b.ForEach(func(key, value []byte) error {
			_, err := textOf(bucket, key, value)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
