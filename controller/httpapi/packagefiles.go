package httpapi

import (
	"context"
	"fmt"
	"net/url"

	"github.com/nodehitch/nodehitch/controller/store/files"
	wire "github.com/nodehitch/nodehitch/shared/api"
)

// PutFile stores one file of the VNF package, or a part of it.
func (s *Handler) PutFile(ctx context.Context, r PutFileRequestObject) (PutFileResponseObject, error) {
	id := canonical(r.VnfInstanceID)
	stored, err := s.Files.Put(ctx, files.Request{
		InstanceID: id, Path: r.Path, Body: r.Body, ContentLength: callOf(ctx).request.ContentLength,
		ContentRange: text(r.Params.ContentRange), SHA256: text(r.Params.XChecksumSha256),
	})
	if err != nil {
		return nil, err
	}
	if !stored.Whole {
		return PutFile308Response{Headers: PutFile308ResponseHeaders{Range: arrived(stored.Arrived)}}, nil
	}
	if err := s.Instances.FileStored(ctx, id, stored.File.Path); err != nil {
		return nil, err
	}
	if stored.Replaced {
		s.collect(ctx)
	}
	file, etag := s.asInstanceSees(ctx, id, stored.File), etagOfContent(stored.File.Sha256)
	if stored.Created {
		location := instancePath(id) + "/files/" + (&url.URL{Path: file.Path}).EscapedPath()
		return PutFile201JSONResponse{Body: file, Headers: PutFile201ResponseHeaders{ETag: &etag, Location: &location}}, nil
	}
	return PutFile200JSONResponse{Body: file, Headers: PutFile200ResponseHeaders{ETag: &etag}}, nil
}

// asInstanceSees is the file with what is wrong with it, as far as the instance
// exists, says so, and still has this content: another upload may have replaced it.
func (s *Handler) asInstanceSees(ctx context.Context, id string, file wire.PackageFile) wire.PackageFile {
	instance, err := s.Instances.GetInstance(ctx, id)
	if err != nil {
		return file
	}
	for _, f := range instance.Files {
		if f.Path == file.Path && f.Sha256 == file.Sha256 {
			return f
		}
	}
	return file
}

// arrived is the value of Range in a 308; no header says that nothing has.
func arrived(n int64) *string {
	if n == 0 {
		return nil
	}
	s := fmt.Sprintf("bytes=0-%d", n-1)
	return &s
}

// GetFile serves one file of the VNF package.
func (s *Handler) GetFile(ctx context.Context, r GetFileRequestObject) (GetFileResponseObject, error) {
	file, sha256, err := s.Files.Open(ctx, canonical(r.VnfInstanceID), r.Path)
	if err != nil {
		return nil, err
	}
	return content{request: callOf(ctx).request, file: file, sha256: sha256}, nil
}

// DeleteFile deletes a file of the VNF package that came before its instance.
func (s *Handler) DeleteFile(ctx context.Context, r DeleteFileRequestObject) (DeleteFileResponseObject, error) {
	if err := s.Files.Delete(ctx, canonical(r.VnfInstanceID), r.Path); err != nil {
		return nil, err
	}
	s.collect(ctx)
	return DeleteFile204Response{}, nil
}

// collect frees the space of files that were replaced or deleted. If it fails, the next
// collection does.
func (s *Handler) collect(ctx context.Context) {
	if err := s.Files.Collect(ctx); err != nil {
		s.Log.WarnContext(ctx, "package files that nothing names are still on disk", "error", err)
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
