package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// part is an upload that is not whole yet. Between requests only arrived and the
// state of the hash stay in memory; after a restart they are made from the file.
type part struct {
	file      *os.File
	path      string
	resumable bool
	arrived   int64
	hash      hash.Hash
	// busy is closed when the request that uses the part ends; nil while none does.
	busy chan struct{}
	// spoilt parts cannot become what the client wants and are thrown away.
	spoilt    bool
	published bool
}

// claim makes the caller the only one to work on this part. Else busy is closed
// when it is worth trying again.
func (b *Blobs) claim(name string) (p *part, busy <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.parts[name]
	if !ok {
		p = &part{}
		b.parts[name] = p
	}
	if p.busy != nil {
		return nil, p.busy
	}
	p.busy = make(chan struct{})
	return p, nil
}

// claimSoon gives the request before some time to end: a client whose connection
// broke comes back before the controller has noticed.
func (b *Blobs) claimSoon(ctx context.Context, name string) *part {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	for {
		p, busy := b.claim(name)
		if p != nil {
			return p
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil
		}
	}
}

// unclaim ends the work on a part, and forgets it unless it can be resumed.
func (b *Blobs) unclaim(name string, p *part, keep bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !keep {
		delete(b.parts, name)
	}
	close(p.busy)
	p.busy = nil
}

// openPart opens the file of a claimed part and brings arrived and hash in line
// with it.
func (b *Blobs) openPart(p *part, name string, resumable bool) error {
	p.path, p.resumable = b.partPath(name, resumable), resumable
	file, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening an upload: %w", problemOf(err))
	}
	p.file = file
	info, err := file.Stat()
	if err == nil && (p.hash == nil || p.arrived != info.Size()) {
		err = p.rehash(info.Size())
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("reading an unfinished upload: %w", err)
	}
	return nil
}

// rehash makes the hash of the first size bytes, which then are all there is.
func (p *part) rehash(size int64) error {
	if err := p.file.Truncate(size); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	p.hash = sha256.New()
	n, err := io.CopyN(p.hash, p.file, size)
	p.arrived = n
	return err
}

// seek prepares for content that starts at first, which is at most arrived: what
// lies beyond is sent again and dropped.
func (p *part) seek(first int64) error {
	if first < p.arrived {
		if err := p.rehash(first); err != nil {
			return fmt.Errorf("truncating an upload: %w", err)
		}
	}
	_, err := p.file.Seek(p.arrived, io.SeekStart)
	return err
}

// Write appends to file and hash.
func (p *part) Write(data []byte) (int, error) {
	n, err := p.file.Write(data)
	p.hash.Write(data[:n])
	p.arrived += int64(n)
	return n, err
}

// publish makes the part the blob at path, durably.
func (p *part) publish(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("storing an upload: %w", err)
	}
	if err := os.Rename(p.path, path); err != nil {
		return fmt.Errorf("storing an upload: %w", err)
	}
	p.published = true
	return errors.Join(durable.Directory(dir), durable.Directory(filepath.Dir(dir)))
}

// release ends the work on a part and keeps what can be resumed: not an empty file,
// which a question for what has arrived, or a body that broke off at once, leaves.
func (b *Blobs) release(name string, p *part) {
	p.file.Close()
	p.file = nil
	keep := p.resumable && !p.spoilt && !p.published && p.arrived > 0
	if !keep && !p.published {
		_ = os.Remove(p.path) // else it goes with the old ones, or at the next start
	}
	b.unclaim(name, p, keep)
}
