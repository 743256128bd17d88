package upload_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/upload"
	"github.com/nodehitch/nodehitch/shared/client"
)

// answers serves an upload endpoint with these answers, the last one again and
// again, and counts the requests. An answer is a status, or a status and a header.
func answers(t *testing.T, list ...string) (*upload.Uploader, *int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer := list[min(requests, len(list)-1)]
		requests++
		status, header, _ := strings.Cut(answer, " ")
		if header != "" {
			w.Header().Set("Range", header)
		}
		w.Header().Set("Content-Type", "application/json")
		codes := map[string]int{"200": 200, "308": 308, "409": 409, "422": 422, "503": 503}
		w.WriteHeader(codes[status])
		_, _ = w.Write([]byte(`{"path":"a","sha256":"x","sizeBytes":4}`))
	})}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	c, err := client.New(client.Options{UnixSocket: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return &upload.Uploader{Controller: c, InstanceID: "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e", Pause: time.Millisecond}, &requests
}

func text(content string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
}

func TestUpload(t *testing.T) {
	tests := map[string]struct {
		answers  []string
		open     func() (io.ReadCloser, error)
		want     string // of the error, "" for none
		requests int
	}{
		"at once":                          {[]string{"200"}, text("abcd"), "", 1},
		"in parts":                         {[]string{"308 bytes=0-1", "308 bytes=0-2", "200"}, text("abcd"), "", 3},
		"the attempt before still goes on": {[]string{"409", "308", "200"}, text("abcd"), "", 3},
		"away for a moment":                {[]string{"503", "503", "200"}, text("abcd"), "", 3},
		"refused":                          {[]string{"422"}, text("abcd"), "422", 1},
		"nothing is ever taken":            {[]string{"308"}, text("abcd"), "stopped after 6 attempts, 0 of 4 bytes", 6},
		"no Range that makes sense":        {[]string{"308 items=3"}, text("abcd"), `Range "items=3" is not`, 12},
		"the file is gone": {[]string{"200"}, func() (io.ReadCloser, error) { return nil, errors.New("no such file") },
			"uploading a: no such file", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u, requests := answers(t, test.answers...)
			stored, err := u.Upload(t.Context(), upload.File{Path: "a", SHA256: strings.Repeat("0", 64), SizeBytes: 4, Open: test.open})
			if (test.want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), test.want)) || (err == nil && stored.SizeBytes != 4) {
				t.Errorf("got %+v, %v; want %q", stored, err, test.want)
			}
			if *requests != test.requests {
				t.Errorf("%d requests, want %d", *requests, test.requests)
			}
		})
	}
}
