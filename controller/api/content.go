package api

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// content answers with a file: whole, in part (Range) or not at all (If-None-Match).
// It never lies in memory.
type content struct {
	request *http.Request
	file    *os.File
	sha256  string
}

func (a content) serve(w http.ResponseWriter) error {
	defer a.file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", fmt.Sprintf("%q", a.sha256))
	w.Header().Set("X-Checksum-Sha256", a.sha256)
	http.ServeContent(w, a.request, "", time.Time{}, struct{ io.ReadSeeker }{a.file})
	return nil
}

// VisitGetFileResponse writes the answer to getFile.
func (a content) VisitGetFileResponse(w http.ResponseWriter) error { return a.serve(w) }

// VisitGetNodeFileResponse writes the answer to getNodeFile.
func (a content) VisitGetNodeFileResponse(w http.ResponseWriter) error { return a.serve(w) }

// VisitGetAgentResponse writes the answer to getAgent.
func (a content) VisitGetAgentResponse(w http.ResponseWriter) error { return a.serve(w) }
