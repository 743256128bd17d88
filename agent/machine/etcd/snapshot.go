package etcd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"
)

const (
	// snapshotLimit is how long a snapshot may take: etcd's data has some GiB at most.
	snapshotLimit = 30 * time.Minute
	// largestPart bounds one message of a snapshot. etcd sends 32 KiB at a time, in base64.
	largestPart = 1 << 20
)

// Snapshot is all of etcd's data, as `etcdctl snapshot save` writes it: the database, then its
// SHA-256. Size is that of both.
type Snapshot struct {
	Size int64

	body  io.Closer
	parts *bufio.Scanner
	rest  []byte // of the last part
	left  int64  // of the database
	sum   hash.Hash
	ended bool
}

// Snapshot asks the member of this machine for its data. The caller reads it to its end, where an
// error says that it is not complete, and closes it.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+"/v3/maintenance/snapshot", bytes.NewReader([]byte("{}")))
	if err != nil {
		return nil, err
	}
	patient := *c.http
	patient.Timeout = snapshotLimit
	got, err := patient.Do(request)
	if err != nil {
		return nil, unusable("etcd does not answer: %v", err)
	}
	s := &Snapshot{body: got.Body, parts: bufio.NewScanner(got.Body), sum: sha256.New()}
	s.parts.Buffer(nil, largestPart)
	if got.StatusCode != http.StatusOK {
		return nil, errors.Join(unusable("etcd answers %s when it is asked for a snapshot", got.Status), got.Body.Close())
	}
	part, err := s.next()
	if err != nil {
		return nil, errors.Join(err, got.Body.Close())
	}
	s.rest, s.left = part.Blob, part.Left
	s.sum.Write(part.Blob)
	s.Size = int64(len(part.Blob)) + part.Left + sha256.Size
	return s, nil
}

// part is one message of the stream.
type part struct {
	// Left is how many bytes of the database follow. The last part has the database's SHA-256.
	Left int64  `json:"remaining_bytes,string"`
	Blob []byte `json:"blob"`
}

func (s *Snapshot) next() (part, error) {
	var message struct {
		Result part    `json:"result"`
		Error  refusal `json:"error"`
	}
	switch {
	case !s.parts.Scan() && s.parts.Err() != nil:
		return part{}, unusable("etcd's snapshot was cut off: %v", s.parts.Err())
	case len(s.parts.Bytes()) == 0:
		return part{}, unusable("etcd's snapshot was cut off: %d bytes of the database, and its SHA-256, are missing", s.left)
	}
	if err := json.Unmarshal(s.parts.Bytes(), &message); err != nil {
		return part{}, unusable("etcd's snapshot has a part that is no JSON of its gateway: %v", err)
	}
	if message.Error.Message != "" {
		return part{}, fmt.Errorf("the snapshot: %w", &message.Error)
	}
	return message.Result, nil
}

func (s *Snapshot) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		part, err := s.next()
		if err != nil {
			return 0, err
		}
		s.rest = part.Blob
		switch before := s.left; {
		case before == 0 && !bytes.Equal(part.Blob, s.sum.Sum(nil)):
			return 0, unusable("etcd's snapshot is damaged: its SHA-256 is not that which etcd sent")
		case before == 0:
			s.ended = true
		case before != int64(len(part.Blob))+part.Left:
			return 0, unusable("etcd's snapshot is damaged: %d bytes of the database were to follow, and there are %d", before, int64(len(part.Blob))+part.Left)
		default:
			s.left = part.Left
			s.sum.Write(part.Blob)
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the request.
func (s *Snapshot) Close() error { return s.body.Close() }
