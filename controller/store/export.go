package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// The records by line, of a store of any engine: one JSON object a line, each bucket and then
// its keys in ascending order. Values lie in it as they lie in the store, so what is sealed
// stays sealed.

// line is a bucket, or a record of it.
type line struct {
	Bucket string `json:"bucket"`
	// Key is empty for the bucket itself.
	Key string `json:"key,omitempty"`
	// JSON is the text of the value; its checksum follows from it.
	JSON json.RawMessage `json:"json,omitempty"`
	// Base64 is the value if it is no text with a checksum.
	Base64 []byte `json:"base64,omitempty"`
}

// maxLine bounds what a reader of lines has in memory.
const maxLine = 32 << 20

// ErrNotRecords says that lines are not those of an Export.
var ErrNotRecords = errors.New("the line is not a record")

// importBytes bounds what Import has in memory besides a line.
const importBytes = 1 << 20

// Export writes all records by line, as the transaction sees them. The key is not in it. Only
// a View can be exported. Write it to where it is soon done: while a transaction of a file is
// open, the file can only grow. Its error is a *CorruptError if a record is damaged.
func (t *Tx) Export(to io.Writer) error {
	if t.snapshot == nil {
		return errors.New("copying the store: the transaction is an Update, whose changes are not durable yet")
	}
	out := bufio.NewWriterSize(to, 64<<10)
	for _, bucket := range t.snapshot.buckets() {
		if err := exportBucket(out, t.snapshot, bucket); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("copying the store: %w", err)
	}
	return nil
}

func exportBucket(out *bufio.Writer, all reader, bucket string) (err error) {
	defer guard(bucket, "", &err)
	if err := writeLine(out, line{Bucket: bucket}); err != nil {
		return err
	}
	for key, value := range all.scan(bucket, "") {
		if isMoved(bucket, key) {
			continue // that is of this file, and not of the state
		}
		next, err := lineOf(bucket, key, value)
		if err != nil {
			return err
		}
		if err := writeLine(out, next); err != nil {
			return err
		}
	}
	return nil
}

func lineOf(bucket, key string, value []byte) (line, error) {
	if !utf8.ValidString(key) {
		return line{}, &CorruptError{Bucket: bucket, Key: key, Err: errors.New("its key is not UTF-8")}
	}
	text, err := textOf(bucket, key, value)
	switch {
	case err == nil && isLine(text):
		return line{Bucket: bucket, Key: key, JSON: text}, nil
	case bucket == bucketMeta: // some of it are numbers and names
		return line{Bucket: bucket, Key: key, Base64: value}, nil
	case err == nil:
		err = &CorruptError{Bucket: bucket, Key: key, Err: errors.New("it is not JSON in one line")}
	}
	return line{}, err
}

// isLine reports whether the text comes back from a line as it is.
func isLine(text []byte) bool {
	return json.Valid(text) && !bytes.ContainsAny(text, "\r\n") && len(bytes.TrimSpace(text)) == len(text)
}

func writeLine(out *bufio.Writer, l line) error {
	text := l.JSON
	l.JSON = nil
	head, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if text != nil { // as it lies: Marshal would rewrite it
		head = append(append(append(head[:len(head)-1], `,"json":`...), text...), '}')
	}
	if len(head) >= maxLine {
		return fmt.Errorf("copying the store: the record %s/%s has %d bytes, and a backup takes at most %d", l.Bucket, l.Key, len(head), maxLine)
	}
	if _, err := out.Write(append(head, '\n')); err != nil {
		return fmt.Errorf("copying the store: %w", err)
	}
	return nil
}

// value is that of the record. Only Open checks whether the record makes sense.
func (l line) value() ([]byte, error) {
	switch {
	case (l.JSON == nil) == (l.Base64 == nil):
		return nil, fmt.Errorf("%w: it has not one value", ErrNotRecords)
	case l.JSON != nil:
		return summed(l.Bucket, l.Key, l.JSON), nil
	}
	return l.Base64, nil
}

// Import makes the file of a store of records by line. The file must not exist. An import
// that fails leaves a file that is not a store.
// Its error is an ErrNotRecords if the lines are not those of an Export.
func Import(path string, lines io.Reader) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists", path)
	}
	file, err := openBolt(path, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	in := bufio.NewScanner(lines)
	in.Buffer(make([]byte, 64<<10), maxLine)
	batch := &importBatch{file: file, writes: writeSet{}}
	for n := 1; in.Scan(); n++ {
		if err := batch.add(in.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("%w: %w", ErrNotRecords, err)
		}
		return err
	}
	return batch.write()
}

// importBatch is what is not written yet.
type importBatch struct {
	file   *bolt
	writes writeSet
	bytes  int
	last   line
}

func (i *importBatch) add(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var next line
	if err := decoder.Decode(&next); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRecords, err)
	}
	switch {
	case next.Bucket == i.last.Bucket && next.Key <= i.last.Key, next.Bucket < i.last.Bucket, next.Bucket == "", len(next.Key) > maxKey:
		return fmt.Errorf("%w: %.100q/%.100q cannot follow %.100q/%.100q", ErrNotRecords, next.Bucket, next.Key, i.last.Bucket, i.last.Key)
	case next.Bucket != i.last.Bucket && next.Key != "":
		return fmt.Errorf("%w: the bucket %.100q begins with the key %.100q", ErrNotRecords, next.Bucket, next.Key)
	}
	i.last = line{Bucket: next.Bucket, Key: next.Key}
	keys := i.writes.in(next.Bucket)
	if next.Key == "" {
		return nil
	}
	value, err := next.value()
	if err != nil {
		return err
	}
	keys[next.Key] = value
	if i.bytes += len(next.Key) + len(value); i.bytes < importBytes {
		return nil
	}
	return i.write()
}

func (i *importBatch) write() error {
	writes := i.writes
	i.writes, i.bytes = writeSet{}, 0
	return i.file.transact(func(reader) writeSet { return writes })
}
