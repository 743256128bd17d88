package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/nodehitch/nodehitch/controller/store/files"
	"github.com/nodehitch/nodehitch/controller/traffic/connlimit"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

const pathBlobs = "/internal/blobs/"

// blobRoutes are the content of package files by its SHA-256, as this replica has it on disk:
// what it lacks it does not fetch for others.
func blobRoutes(blobs *files.Blobs, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathBlobs+"{sha256}", func(w http.ResponseWriter, r *http.Request) {
		file, err := blobs.OpenHere(r.PathValue("sha256"))
		if err != nil {
			refuse(w, problemOf(err, log))
			return
		}
		defer file.Close()
		w.Header().Set("Content-Type", "application/octet-stream")
		control := http.NewResponseController(w)
		http.ServeContent(connlimit.MovingAnswer(w, control, stall), r, "", time.Time{}, struct{ io.ReadSeeker }{file})
	})
	mux.HandleFunc("PUT "+pathBlobs+"{sha256}", func(w http.ResponseWriter, r *http.Request) {
		span, err := files.ParseRange(r.Header.Get("Content-Range"), r.ContentLength)
		if err != nil {
			refuse(w, problemOf(err, log))
			return
		}
		content := connlimit.MovingBody(r.Body, http.NewResponseController(w), stall)
		arrived, whole, err := blobs.Take(r.Context(), r.PathValue("sha256"), span, content)
		switch {
		case err != nil:
			refuse(w, problemOf(err, log))
		case whole:
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Upload-Offset", strconv.FormatInt(arrived, 10))
			w.WriteHeader(http.StatusPermanentRedirect)
		}
	})
	return mux
}

func problemOf(err error, log *slog.Logger) *wire.Problem {
	var known *wire.Problem
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, files.ErrNoBlob):
		return wire.NewProblem(wire.ProblemNotFound, "this replica has no such content")
	}
	log.Error("another replica was not answered", "error", err)
	return wire.NewProblem(wire.ProblemInternal, "the replica's log has more")
}

// Files is the other replicas' package files.
type Files struct {
	Client *Client
	// Others are the URLs of the other replicas that are alive.
	Others func() []string
	Log    *slog.Logger
}

var _ files.Peers = (*Files)(nil)

// Fetch gives the content to receive, from the first replica that has it. Its error is
// files.ErrNoBlob if all have answered that they do not have it.
func (f *Files) Fetch(ctx context.Context, sha256 string, receive func(size int64, content io.Reader) error) error {
	var failed error
	for _, other := range f.Others() {
		err := f.fetch(ctx, other, sha256, receive)
		if err == nil {
			return nil
		}
		if !errors.Is(err, files.ErrNoBlob) {
			failed = errors.Join(failed, fmt.Errorf("from %s: %w", other, err))
		}
	}
	if failed != nil {
		return fmt.Errorf("%w (%w)", wire.NewProblem(wire.ProblemUnavailable,
			"the content "+sha256+" is not on this replica, and not all others answer: try again"), failed)
	}
	return files.ErrNoBlob
}

func (f *Files) fetch(ctx context.Context, url, sha256 string, receive func(int64, io.Reader) error) error {
	answer, err := f.call(ctx, http.MethodGet, url, sha256, nil, 0, "")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return receive(answer.ContentLength, answer.Body)
	case http.StatusNotFound:
		return files.ErrNoBlob
	}
	return statusOf(answer)
}

// Copy returns nil when another replica has the content on its disk, or if no other one is
// alive, which it logs.
func (f *Files) Copy(ctx context.Context, blob files.Blob, content io.ReaderAt) error {
	others := f.Others()
	if len(others) == 0 {
		f.Log.WarnContext(ctx, "no other replica is alive: only this one has the package file", "sha256", blob.SHA256, "bytes", blob.SizeBytes)
		return nil
	}
	var failed error
	for _, other := range others {
		err := f.copy(ctx, other, blob, content)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, fmt.Errorf("to %s: %w", other, err))
	}
	return fmt.Errorf("%w (%w)", wire.NewProblem(wire.ProblemUnavailable,
		"no second replica has taken the file, and one is not enough: try again; the controller's log has more"), failed)
}

// copy sends what the other replica does not have yet.
func (f *Files) copy(ctx context.Context, url string, blob files.Blob, content io.ReaderAt) error {
	at, whole, err := f.send(ctx, url, blob, nil, 0, fmt.Sprintf("bytes */%d", blob.SizeBytes))
	if err != nil || whole {
		return err
	}
	span := ""
	if blob.SizeBytes > 0 {
		if at >= blob.SizeBytes {
			at = blob.SizeBytes - 1 // all but the check of it
		}
		span = fmt.Sprintf("bytes %d-%d/%d", at, blob.SizeBytes-1, blob.SizeBytes)
	}
	_, whole, err = f.send(ctx, url, blob, io.NewSectionReader(content, at, blob.SizeBytes-at), blob.SizeBytes-at, span)
	if err == nil && !whole {
		err = errors.New("it has not taken all of it")
	}
	return err
}

func (f *Files) send(ctx context.Context, url string, blob files.Blob, content io.Reader, length int64, span string) (arrived int64, whole bool, err error) {
	answer, err := f.call(ctx, http.MethodPut, url, blob.SHA256, content, length, span)
	if err != nil {
		return 0, false, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNoContent:
		return blob.SizeBytes, true, nil
	case http.StatusPermanentRedirect:
		arrived, err := strconv.ParseInt(answer.Header.Get("Upload-Offset"), 10, 64)
		if err != nil || arrived < 0 {
			return 0, false, fmt.Errorf("its Upload-Offset is %.40q", answer.Header.Get("Upload-Offset"))
		}
		return arrived, false, nil
	}
	return 0, false, statusOf(answer)
}

func (f *Files) call(ctx context.Context, method, url, sha256 string, content io.Reader, length int64, span string) (*http.Response, error) {
	if length == 0 {
		content = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, url+pathBlobs+sha256, content)
	if err != nil {
		return nil, err
	}
	r.ContentLength = length
	if span != "" {
		r.Header.Set("Content-Range", span)
	}
	return f.Client.RoundTrip(r)
}

func statusOf(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // for people
	return fmt.Errorf("it answers %s: %q", answer.Status, text)
}
