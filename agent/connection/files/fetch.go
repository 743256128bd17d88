package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// Fetch downloads a file and verifies it: when it returns nil, the file at Path has
// been read and has the right SHA-256. It resumes a partial download, also after a
// crash, and reconnects as long as each connection brings more bytes.
//
// Errors: *converge.Waiting with FileUnavailable, which says what to do; of a full
// disk, syscall.ENOSPC.
func (s *Store) Fetch(ctx context.Context, ref api.FileReference) error {
	if err := check(ref); err != nil {
		return err
	}
	complete, err := s.verified(ref)
	if complete || err != nil {
		return err
	}
	p, err := s.part(ref)
	if err != nil {
		return err
	}
	defer p.Close()
	for p.have < ref.SizeBytes {
		before := p.have
		err := s.more(ctx, p)
		if err == nil {
			break
		}
		if final(err) || ctx.Err() != nil || p.have <= before {
			return s.failed(p, err)
		}
		s.Log.Info("resuming an interrupted download", "file", ref.Sha256, "received", p.have, "size", ref.SizeBytes, "error", err)
	}
	return p.finish()
}

// check ensures that the digest is one before it becomes part of a path.
func check(ref api.FileReference) error {
	if len(ref.Sha256) != 64 || strings.Trim(ref.Sha256, "0123456789abcdef") != "" || ref.SizeBytes < 0 {
		return converge.Fail(api.ReasonInvalidDocument, "a file of the configuration has the SHA-256 %.80q and %d bytes; expected 64 lower-case hexadecimal digits and a size", ref.Sha256, ref.SizeBytes)
	}
	return nil
}

// more downloads the missing rest.
func (s *Store) more(ctx context.Context, p *part) error {
	l := s.link.Load()
	if l == nil {
		return converge.Wait(api.ReasonFileUnavailable,
			"the file %s (%d bytes) is not at %s, and no controller has been reached since the agent started; without a controller, put the file there (owner root, mode 0600)",
			p.ref.Sha256, p.ref.SizeBytes, s.Path(p.ref))
	}
	return l.Do(ctx, func(ctx context.Context, c *client.Controller) error {
		ctx, idle := withIdleTimeout(ctx, s.idleTimeout)
		defer idle.stop()
		var part *string
		if p.have > 0 {
			from := fmt.Sprintf("bytes=%d-", p.have)
			part = &from
		}
		resp, err := s.source.get(ctx, c, p.ref.Sha256, part)
		if err != nil {
			return idle.explain(err)
		}
		defer resp.Body.Close()
		if err := p.accept(resp); err != nil {
			return err
		}
		_, err = io.CopyBuffer(onlyWriter{p}, &timedBody{resp.Body, idle}, make([]byte, 128<<10))
		if err == nil && p.have < p.ref.SizeBytes {
			err = io.ErrUnexpectedEOF
		}
		return idle.explain(err)
	})
}

// accept checks the headers of the answer. A server without range support sends the
// whole file; a server whose file is shorter than the partial one has another file.
func (p *part) accept(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		return p.reset()
	case http.StatusPartialContent:
		if from := fmt.Sprintf("bytes %d-", p.have); !strings.HasPrefix(resp.Header.Get("Content-Range"), from) {
			return errors.Join(fmt.Errorf("asked for the rest from byte %d on, and got %q", p.have, resp.Header.Get("Content-Range")), p.reset())
		}
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(fmt.Errorf("the controller's file is shorter than %d bytes", p.have), p.reset())
	}
	return client.ProblemOf(resp)
}

// final reports whether an immediate retry is useless.
func final(err error) bool {
	var waiting *converge.Waiting
	return errors.As(err, &waiting) || errors.Is(err, errNotWritten) || client.Status(err) != 0
}

// failed adds what the operator can do.
func (s *Store) failed(p *part, err error) error {
	var waiting *converge.Waiting
	switch {
	case errors.As(err, &waiting):
		return err
	case errors.Is(err, errNotWritten):
		return p.unwritten(err)
	case client.Status(err) == http.StatusNotFound:
		return converge.Wait(api.ReasonFileUnavailable,
			"the controller does not serve the file %s: %v; the agent asks again; %s", p.ref.Sha256, err, s.source.lost)
	}
	return converge.Wait(api.ReasonFileUnavailable, "fetching the file %s: %d of %d bytes are here: %v; the agent resumes from there",
		p.ref.Sha256, p.have, p.ref.SizeBytes, err)
}

// onlyWriter hides ReadFrom from io.Copy: each byte has to pass through the hash.
type onlyWriter struct{ io.Writer }
