package packagefile_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A file whose content no replica has is missing again: an operation does not start, and the
// file is there once it is uploaded again.
func TestALostFileIsMissing(t *testing.T) {
	w := lifecycletest.Registry(t)
	before := w.Document(lifecycletest.RegistryServer)
	w.Blobs.Peers = &replica.Files{Others: func() []string { return nil }, Log: slog.New(slog.DiscardHandler)}
	lost := before.Registry.Image.File.Sha256
	w.Must(os.Remove(filepath.Join(w.Config.DataDirectory, "blobs", lost[:2], lost)))
	w.Must(w.Files.FindLost(w.Ctx))
	if i := w.Instance(); !slices.Equal(i.MissingFiles, []string{lifecycletest.ImageFile}) || len(i.Files) != 0 {
		t.Errorf("missing %v, files %+v", i.MissingFiles, i.Files)
	}
	_, err := w.Lifecycle.Operations.PostOperation(w.Ctx, lifecycletest.InstanceID, lifecycletest.Heal(api.PhaseStart, nil, lifecycletest.RegistryServer))
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != api.ProblemFilesMissing {
		t.Errorf("a START: %v", err)
	}
	w.Restart() // which validates what is left
	w.Blobs.Peers = &replica.Files{Others: func() []string { return nil }, Log: slog.New(slog.DiscardHandler)}
	w.Upload(lifecycletest.ImageFile, w.SavedImage("second"))
	if i := w.Instance(); len(i.MissingFiles) != 0 || len(i.Files) != 1 {
		t.Errorf("missing %v, files %+v", i.MissingFiles, i.Files)
	}
}
