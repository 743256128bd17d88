package kube

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path"
	"slices"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// WriteNodeArchive writes the programs of a machine as Kubernetes' own archive of them has them.
func (r *Release) WriteNodeArchive(file string) error {
	members := map[string][]byte{}
	for _, name := range onMachines {
		program, err := os.ReadFile(r.Programs[name])
		if err != nil {
			return err
		}
		members[path.Join("kubernetes/node/bin", name)] = program
	}
	return WriteArchive(file, members)
}

// WriteArchive writes a compressed archive of programs.
func WriteArchive(file string, members map[string][]byte) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	compressed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, out.Close())
	}
	archive := tar.NewWriter(compressed)
	for name, content := range members {
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, failed := archive.Write(content)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, archive.Close(), compressed.Close(), out.Close())
}

// ExportImages returns an archive of images that the containerd of a machine has. containerd writes
// an image's layers as they were pushed: not compressed. To compress them here and unpack them on
// each machine takes longer than to move all of it.
func ExportImages(ctx context.Context, node lab.Node, names []string) ([]byte, error) {
	return node.Exec(ctx, slices.Concat([]string{"ctr", "--namespace", "k8s.io", "images", "export", "-"}, names)...)
}
