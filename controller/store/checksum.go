package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A value lies in its bucket as JSON and sumSize bytes behind it: the CRC-32C of
// bucket, key and JSON, big-endian. bbolt sums up nothing but its two headers, so
// without this a byte that a disk or memory has changed inside a value would be
// believed. It is no defence against an attacker who can write the file.
const sumSize = crc32.Size

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errSum     = errors.New("its checksum does not match")
)

func sumOf(bucket, key string, text []byte) []byte {
	sum := crc32.Checksum([]byte(bucket), castagnoli)
	for _, part := range [][]byte{{0}, []byte(key), {0}, text} {
		sum = crc32.Update(sum, castagnoli, part)
	}
	return binary.BigEndian.AppendUint32(nil, sum)
}

// summed is the value that stands for the text.
func summed(bucket, key string, text []byte) []byte {
	return append(bytes.Clone(text), sumOf(bucket, key, text)...)
}

// textOf is the text of a value, which it shares. Its error is a *CorruptError.
func textOf(bucket, key string, value []byte) ([]byte, error) {
	at := len(value) - sumSize
	if at < 0 || !bytes.Equal(value[at:], sumOf(bucket, key, value[:at])) {
		return nil, &CorruptError{Bucket: bucket, Key: key, Err: errSum}
	}
	return value[:at], nil
}

// verifyRecords checks every value of a store. A store of an older schema need not have
// every bucket.
func verifyRecords(r reader, every bool) error {
	for _, bucket := range recordBuckets {
		if !r.has(bucket) {
			if !every {
				continue
			}
			return fmt.Errorf("its bucket %q is missing: restore a backup", bucket)
		}
		for key, value := range r.scan(bucket, "") {
			if _, err := textOf(bucket, key, value); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{metaOrigin, metaRollout, metaBackup, metaMoved} {
		if value := r.get(bucketMeta, key); value != nil {
			if _, err := textOf(bucketMeta, key, value); err != nil {
				return err
			}
		}
	}
	return nil
}
