package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

// Service is the package files of all instances.
type Service struct {
	Store *store.Store
	Blobs *Blobs
	Now   func() time.Time
	Log   *slog.Logger
}

// Request is one upload of a package file, whole or in part.
type Request struct {
	InstanceID string
	// Path is the file's path in the VNF package.
	Path string
	Body io.Reader
	// ContentLength is the length of Body, -1 if it is not known.
	ContentLength int64
	// ContentRange is the header of this name, "" for the whole file.
	ContentRange string
	// SHA256 is the digest that the whole file must have, "" for any.
	SHA256 string
}

// Stored is what a Request has led to.
type Stored struct {
	// Whole says that the file has arrived and is recorded as File; else Arrived
	// bytes of it have.
	Whole   bool
	File    api.PackageFile
	Arrived int64
	// Created says that the path named nothing before, Replaced that it named other content.
	Created, Replaced bool
}

// Put takes one request of an upload. The instance need not exist yet. Problems
// are those of Blobs.Receive, and invalid-request for a path that is not one
// inside a package.
func (s *Service) Put(ctx context.Context, r Request) (Stored, error) {
	path, err := packagePath(r.Path)
	if err != nil {
		return Stored{}, err
	}
	span, err := ParseRange(r.ContentRange, r.ContentLength)
	if err != nil {
		return Stored{}, err
	}
	key := store.FileKey(r.InstanceID, path)
	var out Stored
	got, err := s.Blobs.Receive(ctx, Upload{Name: key, Body: r.Body, Range: span, SHA256: r.SHA256, Twice: true}, func(b Blob) error {
		out.File = api.PackageFile{Path: path, Sha256: b.SHA256, SizeBytes: b.SizeBytes}
		var err error
		out.Created, out.Replaced, err = s.record(key, store.File{InstanceID: r.InstanceID, Path: path, SHA256: b.SHA256, SizeBytes: b.SizeBytes, UploadedAt: s.Now().UTC()})
		return err
	})
	if full(err) {
		// The content may be whole and only its record missing: it has to go, too.
		err = errors.Join(err, s.Collect(ctx))
	}
	if err != nil {
		return Stored{}, err
	}
	out.Whole, out.Arrived = got.Blob != nil, got.Arrived
	if out.Whole {
		s.Log.Info("package file stored", "instance", r.InstanceID, "path", path, "sha256", out.File.Sha256, "bytes", out.File.SizeBytes)
	}
	return out, nil
}

// record makes the blob the content of the path, and says what that was before.
func (s *Service) record(key string, file store.File) (created, replaced bool, err error) {
	err = s.Store.Update(func(tx *store.Tx) error {
		before, found, err := tx.Files().Get(key)
		if err != nil {
			return err
		}
		created, replaced = !found, found && before.SHA256 != file.SHA256
		if found {
			file.Previous = before.Usable()
		}
		return tx.Files().Put(key, file)
	})
	if err != nil {
		return false, false, fmt.Errorf("recording a package file: %w", err)
	}
	return created, replaced, nil
}

// Open opens the content of a path; the caller closes it. not-found if there is
// no such file.
func (s *Service) Open(_ context.Context, instanceID, path string) (*os.File, string, error) {
	path, err := packagePath(path)
	if err != nil {
		return nil, "", err
	}
	var record store.File
	for {
		before := record.SHA256
		var found bool
		err = s.Store.View(func(tx *store.Tx) (err error) {
			record, found, err = tx.Files().Get(store.FileKey(instanceID, path))
			return err
		})
		if err != nil {
			return nil, "", fmt.Errorf("reading a package file's record: %w", err)
		}
		if !found {
			return nil, "", noFile(instanceID, path)
		}
		file, err := s.Blobs.Open(record.SHA256)
		switch {
		case !errors.Is(err, ErrNoBlob):
			return file, record.SHA256, err
		case record.SHA256 != before:
			// An upload may have replaced it after its record was read.
		case s.Blobs.Peers != nil:
			return nil, "", noFile(instanceID, path)
		default:
			return nil, "", fmt.Errorf("the content %s of %s is not on disk: %w", record.SHA256, path, err)
		}
	}
}

// Delete deletes a file that came before its instance; Collect then frees its space.
// not-found if there is no such file, conflict if the instance exists.
func (s *Service) Delete(_ context.Context, instanceID, path string) error {
	path, err := packagePath(path)
	if err != nil {
		return err
	}
	key := store.FileKey(instanceID, path)
	err = s.Store.Update(func(tx *store.Tx) error {
		if _, found, err := tx.Files().Get(key); err != nil || !found {
			return cmp.Or(err, noFile(instanceID, path))
		}
		if _, found, err := tx.Instances().Get(instanceID); err != nil || found {
			return cmp.Or(err, error(api.NewProblem(api.ProblemConflict, fmt.Sprintf(
				"VNF instance %s exists: a PUT of the file replaces it, and a DELETE of the instance deletes it", instanceID))))
		}
		return tx.Files().Delete(key)
	})
	if err == nil {
		s.Log.Info("package file deleted", "instance", instanceID, "path", path)
	}
	return err
}

func noFile(instanceID, path string) error {
	return api.NewProblem(api.ProblemNotFound, fmt.Sprintf("the instance %s has no package file %s; PUT it there", instanceID, grammar.Show(path)))
}

// OpenBlob opens content by its SHA-256; the caller closes it. ErrNoBlob if there
// is none.
func (s *Service) OpenBlob(_ context.Context, sha256 string) (*os.File, error) {
	return s.Blobs.Open(sha256)
}

// Collect removes the content that no record names, and uploads that were not continued.
// Call it after records have gone; Run does so from time to time.
func (s *Service) Collect(context.Context) error { return s.collect(0) }

// copyGrace is how long a replica that is not the leader keeps content that no record names. It
// gets the content before the leader makes the record.
const copyGrace = time.Hour

func (s *Service) collect(grace time.Duration) error {
	removed, err := s.Blobs.Collect(grace, func() (map[string]bool, error) {
		named := make(map[string]bool)
		list, err := s.named()
		for _, sha256 := range list {
			named[sha256] = true
		}
		return named, err
	})
	if removed > 0 {
		s.Log.Info("package files that nothing names are removed", "files", removed)
	}
	return err
}

func (s *Service) named() (list []string, err error) {
	err = s.Store.View(func(tx *store.Tx) (err error) {
		list, err = tx.Blobs()
		return err
	})
	return list, err
}

// waitForInstance is how long a file waits for its instance.
const waitForInstance = 24 * time.Hour

// expire deletes the files whose instance has not come.
func (s *Service) expire() error {
	var old []store.File
	find := func(tx *store.Tx) error {
		old = nil
		files, err := tx.Files().All()
		if err != nil {
			return err
		}
		for _, f := range files {
			_, found, err := tx.Instances().Get(f.InstanceID)
			if err != nil {
				return err
			}
			if !found && s.Now().Sub(f.UploadedAt) >= waitForInstance {
				old = append(old, f)
			}
		}
		return nil
	}
	if err := s.Store.View(find); err != nil || len(old) == 0 {
		return err
	}
	err := s.Store.Update(func(tx *store.Tx) error {
		err := find(tx)
		for _, f := range old {
			err = cmp.Or(err, tx.Files().Delete(store.FileKey(f.InstanceID, f.Path)))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range old {
		s.Log.Info("package file deleted: its instance has not come", "instance", f.InstanceID, "path", f.Path)
	}
	return nil
}

// collectEvery is how long content that nothing names may stay, and how much longer
// than partLife an unfinished upload, and than waitForInstance a file.
const collectEvery = time.Hour

// lostEvery is how long a file stays lost after a replica has come that has its content.
const lostEvery = time.Minute

// Run expires files, finds those that were lost and collects from time to time, until ctx ends.
// It is for the leader.
func (s *Service) Run(ctx context.Context) {
	var again func() error
	if s.Blobs.Peers != nil {
		again = func() error { return s.findAgain(ctx) }
	}
	s.repeat(ctx, again, func() error { return errors.Join(s.expire(), s.FindLost(ctx), s.Collect(ctx)) })
}

// RunCopies collects from time to time, until ctx ends. It is for a replica that is not the leader.
func (s *Service) RunCopies(ctx context.Context) {
	s.repeat(ctx, nil, func() error { return s.collect(copyGrace) })
}

// repeat does the one at once and each hour, and the other, if there is one, each minute.
func (s *Service) repeat(ctx context.Context, often, seldom func() error) {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	var short <-chan time.Time
	if often != nil {
		ticker := time.NewTicker(lostEvery)
		defer ticker.Stop()
		short = ticker.C
	}
	for do := seldom; ; {
		if err := do(); err != nil {
			s.Log.Warn("package files that nothing names are still on disk", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do = seldom
		case <-short:
			do = often
		}
	}
}

func packagePath(path string) (string, error) {
	clean, err := grammar.PackagePath(path)
	if err != nil {
		return "", api.NewProblem(api.ProblemInvalid, fmt.Sprintf("the path of the package file %v", err))
	}
	return clean, nil
}
