package params

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nodehitch/nodehitch/shared/fault"
)

// maxSmallFile is how large a file may be that is read as a whole: manifests and
// certificates. A manifest crosses the wire and has to fit in an API request.
const maxSmallFile = 1 << 20

// CheckFile reads the content of a package file to its end and checks it for one
// use. Findings stand at the place where the parameters name the file; p, which
// may be nil, are these parameters. now decides which certificates have expired.
// The error is content's own, never a user's mistake: check again when it reads.
//
// Archives are streamed and never kept in memory. What needs several files at
// once is CheckManifests'.
func CheckFile(use FileUse, content io.Reader, p *Params, now time.Time) (Report, error) {
	c := &fileCheck{use: use, params: p, now: now}
	source := &source{reader: content}
	switch use.Use {
	case UseManifest:
		c.small(source, c.manifest)
	case UseCertificate:
		c.small(source, c.certificate)
	case UseImage:
		c.image(source)
	case UseScript:
		c.script(source)
	case UsePodNetwork:
		c.small(source, c.podNetwork)
	case UseKubeadmConfig:
		c.small(source, c.kubeadmConfig)
	case UsePrograms:
		c.programs(source)
	case UseImages:
		c.images(source)
	default:
		return Report{}, fmt.Errorf("checking %s: unknown use %q", use.Path, use.Use)
	}
	_, _ = io.Copy(io.Discard, source) // source keeps the error
	if source.err != nil {
		return Report{}, fmt.Errorf("reading %s: %w", use.Path, source.err)
	}
	return c.r.report(nil, fault.At(use.Pointer)), nil
}

// fileCheck is one use of a file while it is checked.
type fileCheck struct {
	use    FileUse
	params *Params
	now    time.Time
	r      reader
}

// fault says what is wrong with the file.
func (c *fileCheck) fault(format string, args ...any) {
	c.r.fault(fault.At(c.use.Pointer), "%s %s", c.use.Path, fmt.Sprintf(format, args...))
}

func (c *fileCheck) warn(format string, args ...any) {
	c.r.warn(fault.At(c.use.Pointer), "%s %s", c.use.Path, fmt.Sprintf(format, args...))
}

// faults says what a reader of contents found; places within the file become text.
func (c *fileCheck) faults(err error) {
	var list fault.List
	if !errors.As(err, &list) {
		list = fault.List{fault.Root.Fault(err.Error())}
	}
	for _, f := range list {
		if f.Pointer == "" {
			c.fault("%s", f.Message)
			continue
		}
		c.fault("at %.300s: %s", f.Pointer, f.Message)
	}
}

func (c *fileCheck) small(content io.Reader, check func([]byte)) {
	data, err := io.ReadAll(io.LimitReader(content, maxSmallFile+1))
	switch {
	case err != nil:
		// CheckFile reports it: it is the source's.
	case len(data) > maxSmallFile:
		c.fault("is larger than %d bytes, the most that a %s may have", maxSmallFile, c.use.Use)
	default:
		check(data)
	}
}

func (c *fileCheck) script(content io.Reader) {
	n, err := io.Copy(io.Discard, content)
	if err == nil && n == 0 {
		c.fault("is empty; expected a script")
	}
}

// source remembers the first error of a reader other than its end, so that a
// failing disk or upload is told from content that is wrong.
type source struct {
	reader io.Reader
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// fault is the error of a check that read s: the reader's own, else a fault of the content.
func (s *source) fault(err error) error {
	if s.err != nil {
		return s.err
	}
	return fault.List{fault.Root.Fault(err.Error())}
}
