package lcm_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nodehitch/nodehitch/controller/replica"
	"github.com/nodehitch/nodehitch/shared/api"
)

// A file whose content no replica has is missing again: an operation does not start, and the
// file is there once it is uploaded again.
func TestALostFileIsMissing(t *testing.T) {
	w := registry(t)
	before := w.document(registryServer)
	w.Blobs.Peers = &replica.Files{Others: func() []string { return nil }, Log: slog.New(slog.DiscardHandler)}
	lost := before.Registry.Image.File.Sha256
	w.must(os.Remove(filepath.Join(w.Config.DataDirectory, "blobs", lost[:2], lost)))
	w.must(w.Files.FindLost(w.ctx))
	if i := w.instance(); !slices.Equal(i.MissingFiles, []string{image}) || len(i.Files) != 0 {
		t.Errorf("missing %v, files %+v", i.MissingFiles, i.Files)
	}
	_, err := w.LCM.Operations.PostOperation(w.ctx, instanceID, heal(api.PhaseStart, nil, registryServer))
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Type != api.ProblemFilesMissing {
		t.Errorf("a START: %v", err)
	}
	w.restart() // which validates what is left
	w.Blobs.Peers = &replica.Files{Others: func() []string { return nil }, Log: slog.New(slog.DiscardHandler)}
	w.upload(image, w.savedImage("second"))
	if i := w.instance(); len(i.MissingFiles) != 0 || len(i.Files) != 1 {
		t.Errorf("missing %v, files %+v", i.MissingFiles, i.Files)
	}
}
