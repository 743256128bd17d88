package connlimit

import (
	"io"
	"net/http"
	"time"
)

// MovingBody is the body of a request that may be slow, but not stand still for longer than
// this.
func MovingBody(body io.ReadCloser, control *http.ResponseController, stall time.Duration) io.ReadCloser {
	return &movingReader{ReadCloser: body, control: control, stall: stall}
}

// MovingAnswer is an answer that the client may take slowly, but not stop taking for longer
// than this. Until it begins, it has the deadline that the connection has.
func MovingAnswer(w http.ResponseWriter, control *http.ResponseController, stall time.Duration) http.ResponseWriter {
	return &movingWriter{ResponseWriter: w, control: control, stall: stall}
}

// movingReader moves the deadline with every piece that arrives.
type movingReader struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
}

func (r *movingReader) Read(p []byte) (int, error) {
	_ = r.control.SetReadDeadline(time.Now().Add(r.stall))
	return r.ReadCloser.Read(p)
}

// movingWriter moves the deadline with every piece that leaves. Checking a large
// upload takes its time before the first one does.
type movingWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

// WriteHeader begins the answer.
func (w *movingWriter) WriteHeader(status int) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.stall))
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of it.
func (w *movingWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.stall))
	return w.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController the connection.
func (w *movingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
