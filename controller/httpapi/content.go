package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
)

// content answers with a file: whole, in part (Range) or not at all (If-None-Match).
// It never lies in memory.
type content struct {
	request *http.Request
	file    *os.File
	sha256  string
}

func etagOfContent(sha256 string) string { return `"` + sha256 + `"` }

func (a content) serve(w http.ResponseWriter) error {
	defer a.file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", etagOfContent(a.sha256))
	w.Header().Set("X-Checksum-Sha256", a.sha256)
	answer := &refusing{ResponseWriter: w}
	http.ServeContent(answer, a.request, "", time.Time{}, struct{ io.ReadSeeker }{a.file})
	switch answer.refused {
	case 0:
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		return wire.NewProblem(wire.ProblemRange, "the header Range asks for nothing that the file has; Content-Range says how many bytes it has")
	case http.StatusPreconditionFailed:
		return wire.NewProblem(wire.ProblemPrecondition, "the file is not the one that If-Match names")
	}
	return fmt.Errorf("serving a file: status %d", answer.refused)
}

// refusing keeps back an error that http.ServeContent answers, which is no problem detail.
type refusing struct {
	http.ResponseWriter
	refused int
}

// WriteHeader begins the answer, or keeps it back.
func (w *refusing) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a piece of the answer.
func (w *refusing) Write(p []byte) (int, error) {
	if w.refused != 0 {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// VisitGetFileResponse writes the answer to getFile.
func (a content) VisitGetFileResponse(w http.ResponseWriter) error { return a.serve(w) }

// VisitGetNodeFileResponse writes the answer to getNodeFile.
func (a content) VisitGetNodeFileResponse(w http.ResponseWriter) error { return a.serve(w) }

// VisitGetAgentResponse writes the answer to getAgent.
func (a content) VisitGetAgentResponse(w http.ResponseWriter) error { return a.serve(w) }
