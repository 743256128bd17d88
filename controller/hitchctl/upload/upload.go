// Package upload brings a file to the controller over connections that break:
// what has arrived is not sent again.
package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/sleep"
)

// File is a file of a VNF package that is to be uploaded.
type File struct {
	Path string
	// SHA256 is lower-case hexadecimal; the controller refuses other content.
	SHA256    string
	SizeBytes int64
	// Open gives the content from its beginning; it is called for each attempt.
	Open func() (io.ReadCloser, error)
}

// Uploader uploads files of one instance.
type Uploader struct {
	Controller *client.Controller
	InstanceID string
	// Progress is told how much of the file has been sent, as it is sent.
	Progress func(sent int64)
	// Pause is how long to wait before another attempt; 0 is a second.
	Pause time.Duration
}

const (
	// attempts is how often in a row an attempt may bring nothing.
	attempts = 6
	// askFrom is the size from which an earlier upload is worth asking for.
	askFrom = 1 << 20
)

// Upload sends the file, from where an earlier attempt was cut, and tries again
// where the connection breaks or the controller is away for a moment. It returns
// what the controller made of the file, its faults included.
func (u *Uploader) Upload(ctx context.Context, f File) (*api.PackageFile, error) {
	var at int64
	if f.SizeBytes >= askFrom {
		at = u.arrived(ctx, f, 0)
	}
	for failed := 0; ; {
		stored, reached, err := u.send(ctx, f, at)
		if stored != nil {
			return stored, nil
		}
		if err != nil && !worthwhile(ctx, err) {
			return nil, fmt.Errorf("uploading %s: %w", f.Path, err)
		}
		if err != nil {
			if err := sleep.For(ctx, u.pause(), nil); err != nil {
				return nil, err
			}
			reached = u.arrived(ctx, f, at)
		}
		if failed++; reached > at {
			failed = 0
		}
		if failed >= attempts {
			return nil, fmt.Errorf("uploading %s: stopped after %d attempts, %d of %d bytes have arrived; run the command again to continue there: %w",
				f.Path, failed, reached, f.SizeBytes, orNothing(err))
		}
		at = reached
	}
}

func orNothing(err error) error {
	if err == nil {
		return errors.New("the controller received none of it")
	}
	return err
}

func (u *Uploader) pause() time.Duration {
	if u.Pause > 0 {
		return u.Pause
	}
	return time.Second
}

// send sends the file from a position on. Without an error the file is stored, or
// some of it has arrived.
func (u *Uploader) send(ctx context.Context, f File, at int64) (*api.PackageFile, int64, error) {
	content, err := f.Open()
	if err != nil {
		return nil, at, final{err}
	}
	defer content.Close()
	if err := skip(content, at); err != nil {
		return nil, at, final{err}
	}
	body := &counting{r: io.LimitReader(content, f.SizeBytes-at), n: at, tell: u.Progress}
	span := ""
	if f.SizeBytes > 0 {
		span = fmt.Sprintf("bytes %d-%d/%d", at, f.SizeBytes-1, f.SizeBytes)
	}
	return u.put(ctx, f, span, body, f.SizeBytes-at)
}

// arrived asks how much has arrived; it returns sent if the controller does not answer.
func (u *Uploader) arrived(ctx context.Context, f File, known int64) int64 {
	stored, at, err := u.put(ctx, f, fmt.Sprintf("bytes */%d", f.SizeBytes), http.NoBody, 0)
	if err != nil || stored != nil || at > f.SizeBytes {
		return known
	}
	return at
}

func (u *Uploader) put(ctx context.Context, f File, span string, body io.Reader, length int64) (*api.PackageFile, int64, error) {
	headers := &api.PutFileParams{XChecksumSha256: &f.SHA256}
	if span != "" {
		headers.ContentRange = &span
	}
	resp, err := u.Controller.PutFileWithBody(ctx, u.InstanceID, f.Path, headers, "application/octet-stream", body,
		func(_ context.Context, r *http.Request) error {
			if r.ContentLength = length; length == 0 {
				r.Body = http.NoBody
			}
			return nil
		})
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode == http.StatusPermanentRedirect {
		at, err := position(resp.Header.Get("Range"))
		return nil, at, errors.Join(err, resp.Body.Close())
	}
	stored, err := client.Read[api.PackageFile](resp, nil)
	return stored, 0, err
}

// position is the first byte that has not arrived, by the Range of a 308. No
// header says that nothing has.
func position(header string) (int64, error) {
	if header == "" {
		return 0, nil
	}
	last, ok := strings.CutPrefix(header, "bytes=0-")
	n, err := strconv.ParseInt(last, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("the controller's Range %.40q is not bytes=0-<last>", header)
	}
	return n + 1, nil
}

func skip(r io.Reader, n int64) error {
	if seeker, ok := r.(io.Seeker); ok {
		_, err := seeker.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, r, n)
	return err
}

// final is an error that no retry fixes: the file cannot be read.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// worthwhile reports whether another attempt may succeed. A conflict passes: it is
// the attempt before, which the controller has not given up yet.
func worthwhile(ctx context.Context, err error) bool {
	var unreadable final
	if ctx.Err() != nil || errors.As(err, &unreadable) {
		return false
	}
	status := client.Status(err)
	return status == 0 || status >= 500 || status == http.StatusConflict || status == http.StatusTooManyRequests
}

// counting tells how far it has been read.
type counting struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.tell != nil {
		c.tell(c.n)
	}
	return n, err
}
