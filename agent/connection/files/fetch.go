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

// Fetch makes a file be there, whole and proven: when it returns nil, the content
// of Path has been read and has the file's SHA-256. What is there of it already is
// not sent again, also after a crash. A cut connection is taken up again as long as
// that brings anything.
//
// Errors: *converge.Waiting with FileUnavailable, which says what to do; of a full
// disk, syscall.ENOSPC.
func (s *Store) Fetch(ctx context.Context, ref api.FileReference) error {
	if err := check(ref); err != nil {
		return err
	}
	whole, err := s.proven(ref)
	if whole || err != nil {
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
		s.Log.Info("a download was cut off; it is resumed", "file", ref.Sha256, "received", p.have, "size", ref.SizeBytes, "error", err)
	}
	return p.finish()
}

// check keeps a path from being made of what is no digest.
func check(ref api.FileReference) error {
	if len(ref.Sha256) != 64 || strings.Trim(ref.Sha256, "0123456789abcdef") != "" || ref.SizeBytes < 0 {
		return converge.Fail(api.ReasonInvalidDocument, "a file of the configuration has the SHA-256 %.80q and %d bytes; expected 64 lower-case hexadecimal digits and a size", ref.Sha256, ref.SizeBytes)
	}
	return nil
}

// more asks the controller for what is missing, and takes what comes.
func (s *Store) more(ctx context.Context, p *part) error {
	l := s.link.Load()
	if l == nil {
		return converge.Wait(api.ReasonFileUnavailable,
			"the file %s (%d bytes) is not at %s, and no controller has been reached since the agent started; without one, put the file there (root's, mode 0600)",
			p.ref.Sha256, p.ref.SizeBytes, s.Path(p.ref))
	}
	return l.Do(ctx, func(ctx context.Context, c *client.Controller) error {
		ctx, quiet := notSilent(ctx, s.silence)
		defer quiet.stop()
		var params api.GetNodeFileParams
		if p.have > 0 {
			from := fmt.Sprintf("bytes=%d-", p.have)
			params.Range = &from
		}
		resp, err := c.GetNodeFile(ctx, p.ref.Sha256, &params)
		if err != nil {
			return quiet.explain(err)
		}
		defer resp.Body.Close()
		if err := p.accept(resp); err != nil {
			return err
		}
		_, err = io.CopyBuffer(onlyWriter{p}, &heard{resp.Body, quiet}, make([]byte, 128<<10))
		if err == nil && p.have < p.ref.SizeBytes {
			err = io.ErrUnexpectedEOF
		}
		return quiet.explain(err)
	})
}

// accept looks at what the controller answers with. A server that knows no ranges
// sends all of it, and one that has less than we have has another file.
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

// final says that asking again at once is of no use.
func final(err error) bool {
	var waiting *converge.Waiting
	return errors.As(err, &waiting) || errors.Is(err, errNotWritten) || client.Status(err) != 0
}

// failed says what is wrong and what to do about it.
func (s *Store) failed(p *part, err error) error {
	var waiting *converge.Waiting
	switch {
	case errors.As(err, &waiting):
		return err
	case errors.Is(err, errNotWritten):
		return p.unwritten(err)
	case client.Status(err) == http.StatusNotFound:
		return converge.Wait(api.ReasonFileUnavailable,
			"the controller does not give the file %s: %v; it is asked again: give the file anew (`hitchctl apply --package`) where it was lost", p.ref.Sha256, err)
	}
	return converge.Wait(api.ReasonFileUnavailable, "fetching the file %s: %d of %d bytes are here: %v; the agent goes on from there",
		p.ref.Sha256, p.have, p.ref.SizeBytes, err)
}

// onlyWriter hides ReadFrom from io.Copy: each byte has to pass through the hash.
type onlyWriter struct{ io.Writer }
