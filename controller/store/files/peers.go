package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nodehitch/nodehitch/shared/api"
)

// Peers are the package files of the other replicas that are alive.
type Peers interface {
	// Fetch gives the content to receive; its error is ErrNoBlob if no replica has it.
	Fetch(ctx context.Context, sha256 string, receive func(size int64, content io.Reader) error) error
	// Copy returns nil when another replica has the content on its disk, or if no other one is
	// alive.
	Copy(ctx context.Context, blob Blob, content io.ReaderAt) error
}

// Open opens a blob for reading; ErrNoBlob if there is none of this name. What only another
// replica has is fetched first.
func (b *Blobs) Open(sha256 string) (*os.File, error) {
	f, err := b.OpenHere(sha256)
	if b.Peers == nil || !errors.Is(err, ErrNoBlob) || !isDigest(sha256) {
		return f, err
	}
	// The fetch is for all who wait for the content, so none of them ends it.
	_, err, _ = b.fetching.Do(sha256, func() (any, error) { return nil, b.fetch(context.Background(), sha256) })
	if err != nil {
		return nil, err
	}
	return b.OpenHere(sha256)
}

func (b *Blobs) fetch(ctx context.Context, sha256 string) error {
	return b.Peers.Fetch(ctx, sha256, func(size int64, content io.Reader) error {
		_, whole, err := b.Take(ctx, sha256, Range{Last: size - 1, Total: size}, content)
		if err == nil && !whole {
			err = fmt.Errorf("the content %s has not arrived as a whole", sha256)
		}
		return err
	})
}

// Take takes content from another replica, or a part of it; problems are those of Receive. Once
// it is here, Collect leaves it alone for its grace, in which a record has to name it.
func (b *Blobs) Take(ctx context.Context, sha256 string, span Range, content io.Reader) (arrived int64, whole bool, err error) {
	if !isDigest(sha256) {
		return 0, false, api.NewProblem(api.ProblemInvalid, fmt.Sprintf("the content is called %.80q; expected its SHA-256", sha256))
	}
	if size, err := b.keep(sha256); err == nil || !errors.Is(err, ErrNoBlob) {
		return size, err == nil, err
	}
	got, err := b.Receive(ctx, Upload{Name: "a replica", Body: content, Range: span, SHA256: sha256}, func(Blob) error { return nil })
	return got.Arrived, got.Blob != nil, err
}

// keep begins the grace of content that is here anew.
func (b *Blobs) keep(sha256 string) (size int64, err error) {
	b.collecting.RLock()
	defer b.collecting.RUnlock()
	f, err := b.OpenHere(sha256)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading the state of a package file: %w", err)
	}
	now := b.now()
	return info.Size(), os.Chtimes(f.Name(), now, now)
}
