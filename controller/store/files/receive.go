package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
)

// claimTime is how long a request waits for another one on the same upload.
const claimTime = 5 * time.Second

// Upload is one request that brings content.
type Upload struct {
	// Name says what is being uploaded; requests with one Name, total and SHA256
	// continue each other.
	Name string
	// Body is the content of this request.
	Body io.Reader
	// Range is where Body stands in the whole.
	Range Range
	// SHA256 is the digest that the whole must have, "" if the client gave none.
	SHA256 string
	// Twice says that another replica has to have the content before commit is called, if one
	// is alive.
	Twice bool
}

// Received is what has arrived after one request.
type Received struct {
	// Blob is the whole content; nil while some of it is missing.
	Blob *Blob
	// Arrived is how many bytes from the start have arrived.
	Arrived int64
}

// Receive takes one request's content. Once all of it has arrived the blob is
// made durable and commit is called, which has to make the record that names it;
// until it returns, Collect leaves the blob alone. What arrived before a
// connection broke is kept for a later request, if the total is known.
//
// Problems: too-large, conflict (the same upload is under way in another
// request), invalid-request (more or less content than the range says; a digest
// that differs), unavailable (the disk is full).
func (b *Blobs) Receive(ctx context.Context, u Upload, commit func(Blob) error) (Received, error) {
	if u.Range.Total > b.max {
		return Received{}, b.tooLarge()
	}
	name := partName(u)
	p := b.claimSoon(ctx, name)
	if p == nil {
		return Received{}, api.NewProblem(api.ProblemConflict,
			"another request is uploading this file; wait for its end, or ask how much has arrived with Content-Range: bytes */<total>")
	}
	if err := b.openPart(p, name, u.Range.Total >= 0); err != nil {
		b.unclaim(name, p, false)
		return Received{}, err
	}
	got, err := b.receive(ctx, p, u, commit)
	// On a full disk the rest will not arrive soon, and what has keeps the store from
	// writing.
	p.spoilt = p.spoilt || full(err)
	b.release(name, p)
	return got, problemOf(err)
}

func (b *Blobs) receive(ctx context.Context, p *part, u Upload, commit func(Blob) error) (Received, error) {
	if u.Range.Query || u.Range.First > p.arrived {
		return Received{Arrived: p.arrived}, nil
	}
	if err := p.seek(u.Range.First); err != nil {
		return Received{}, err
	}
	if err := b.copy(p, u); err != nil {
		return Received{}, err
	}
	if err := p.file.Sync(); err != nil {
		p.spoilt = true // it is unknown how much of it is on the disk
		return Received{}, fmt.Errorf("writing an upload: %w", err)
	}
	if u.Range.Total >= 0 && p.arrived < u.Range.Total {
		return Received{Arrived: p.arrived}, nil
	}
	blob := Blob{SHA256: hex.EncodeToString(p.hash.Sum(nil)), SizeBytes: p.arrived}
	if u.SHA256 != "" && u.SHA256 != blob.SHA256 {
		p.spoilt = true
		return Received{}, differs(u.SHA256, blob)
	}
	if u.Twice && b.Peers != nil {
		if err := b.Peers.Copy(ctx, blob, p.file); err != nil {
			p.spoilt = true // clients continue what is not whole, and know nothing of this
			return Received{}, err
		}
	}
	b.collecting.RLock()
	defer b.collecting.RUnlock()
	if err := p.publish(b.path(blob.SHA256)); err != nil {
		return Received{}, err
	}
	return Received{Blob: &blob, Arrived: p.arrived}, commit(blob)
}

// copy appends the body. It reads one byte more than it may take, so that a body
// that is too long is noticed and not cut.
func (b *Blobs) copy(p *part, u Upload) error {
	want := u.Range.Length()
	limit := b.max - p.arrived
	if want >= 0 {
		limit = want
	}
	body := &body{Reader: u.Body}
	n, err := io.CopyBuffer(onlyWriter{p}, io.LimitReader(body, limit+1), make([]byte, 128<<10))
	switch {
	case body.err != nil:
		return api.NewProblem(api.ProblemInvalid, fmt.Sprintf("the body broke off after %d bytes (%v); continue with Content-Range from byte %d", n, body.err, p.arrived))
	case n > limit && want < 0:
		p.spoilt = true
		return b.tooLarge()
	case n > limit:
		p.spoilt = true
		return api.NewProblem(api.ProblemInvalid, fmt.Sprintf("the body is longer than the %d bytes that the request announces", want))
	case err != nil:
		return fmt.Errorf("receiving an upload: %w", err)
	case want >= 0 && n < want:
		return api.NewProblem(api.ProblemInvalid, fmt.Sprintf("the body ended after %d of %d bytes; continue with Content-Range from byte %d", n, want, p.arrived))
	}
	return nil
}

func (b *Blobs) tooLarge() error {
	return api.NewProblem(api.ProblemTooLarge, fmt.Sprintf("the file is larger than %d bytes; the controller's maxFileBytes sets this limit", b.max))
}

func differs(want string, got Blob) error {
	p := api.NewProblem(api.ProblemInvalid, fmt.Sprintf("the uploaded content (%d bytes) has the SHA-256 %s, expected %s; upload it again",
		got.SizeBytes, got.SHA256, want))
	p.Status = 422
	return p
}

// problemOf names what is wrong with the disk; the operator must fix it, not
// a bug.
func problemOf(err error) error {
	var number syscall.Errno
	var known *api.Problem
	switch {
	case errors.As(err, &known) || !errors.As(err, &number):
		return err
	case !full(err):
		return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
			fmt.Sprintf("the controller's disk does not take the upload (%v): repair the disk under its data directory, then upload again", number)), err)
	default:
		return fmt.Errorf("%w (%w)", api.NewProblem(api.ProblemUnavailable,
			"the controller's disk is full and nothing of this upload was kept; free space under its data directory, then upload again"), err)
	}
}

func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// partName is a file name for what continues one another.
func partName(u Upload) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", u.Name, u.Range.Total, u.SHA256))
	return hex.EncodeToString(sum[:])
}

// body remembers that reading failed, which is the client's or the network's doing.
type body struct {
	io.Reader
	err error
}

func (b *body) Read(buf []byte) (int, error) {
	n, err := b.Reader.Read(buf)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// onlyWriter hides everything but Write, so that CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// temporaryPrefix starts the names of uploads that cannot be resumed.
const temporaryPrefix = "once-"

func (b *Blobs) partPath(name string, resumable bool) string {
	if !resumable {
		name = temporaryPrefix + name
	}
	return filepath.Join(b.uploadDir(), name)
}
