package fleet

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/results"
)

// TestDownloads has the nodes of a cluster fetch the images of Kubernetes at the same time.
func TestDownloads(t *testing.T) {
	for _, size := range []struct {
		nodes, megabytes int
		long             bool
	}{{10, 30, false}, {50, 300, true}} {
		t.Run(fmt.Sprintf("%d nodes", size.nodes), func(t *testing.T) {
			c := results.Begin(t, "fleet", fmt.Sprintf("%d nodes fetch a file at a time", size.nodes), "the controller's memory and time for a package file that each node fetches")
			if size.long {
				results.LongOnly(t)
			}
			f := open(t, c)
			const file = "Files/images.tar"
			folder := t.TempDir()
			sum := f.archive(filepath.Join(folder, file), size.megabytes<<20)
			params := loopback.ClusterParams("")
			loopback.ClusterOf(params)["kubernetes"] = map[string]any{"version": "1.34.4", "image_archive_paths": []string{file}}
			request, topology := filepath.Join(folder, "request.json"), filepath.Join(folder, "topology.json")
			for path, content := range map[string]any{request: map[string]any{"flavourId": "simple", "additionalParams": params}, topology: loopback.Workers(id, 0, size.nodes)} {
				text, err := json.Marshal(content)
				f.must(errors.Join(err, os.WriteFile(path, text, 0o600)))
			}
			began := time.Now()
			f.Must("apply", id(0, 0), "-f", request, "--topology", topology, "--package", folder)
			c.Figure("uploaded and checked", "%d MiB in %.1f s", size.megabytes, time.Since(began).Seconds())
			clients := f.clients(size.nodes)
			before := f.Usage()
			began = time.Now()
			var all sync.WaitGroup
			for i, client := range clients {
				all.Go(func() {
					if err := download(t.Context(), client, f.URL+"/v1/node/files/"+sum, sum); err != nil {
						t.Errorf("node %d: %v", i, err)
					}
				})
			}
			all.Wait()
			took, after := time.Since(began), f.Usage()
			c.Figure("all have it", "after %.1f s: %.0f MiB/s", took.Seconds(), float64(size.nodes*size.megabytes)/took.Seconds())
			c.Figure("RSS", "%d MiB, at most %d MiB", before.Resident>>20, after.Peak>>20)
			c.Figure("CPU", "%.1f s", (after.CPU - before.CPU).Seconds())
			if most := before.Resident + 64<<20; after.Peak > most {
				t.Errorf("the controller has %d MiB at most, and had %d before; a download may not be in memory", after.Peak>>20, before.Resident>>20)
			}
		})
	}
}

// archive writes an archive of an image with one layer of random bytes, and returns its SHA-256.
func (f *fleet) archive(path string, size int) string {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(path), 0o755))
	out, err := os.Create(path)
	f.must(err)
	defer out.Close()
	digest := sha256.New()
	w := tar.NewWriter(io.MultiWriter(out, digest))
	for name, text := range map[string]string{"c.json": `{"architecture":"amd64"}`, "manifest.json": `[{"Config":"c.json","RepoTags":["example.com/large:1"],"Layers":["layer.tar"]}]`} {
		f.must(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := io.WriteString(w, text)
		f.must(err)
	}
	f.must(w.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: int64(size)}))
	_, err = io.CopyN(w, rand.NewChaCha8([32]byte{}), int64(size))
	f.must(errors.Join(err, w.Close()))
	return hex.EncodeToString(digest.Sum(nil))
}

// clients are those of nodes that enroll.
func (f *fleet) clients(nodes int) (list []*http.Client) {
	f.t.Helper()
	trust, token := f.Trust(), f.JoinToken(id(0, 0))
	for n := range nodes {
		config, err := f.identity(trust, token, n)
		f.must(err)
		list = append(list, &http.Client{Transport: &http.Transport{DialContext: source(n).DialContext, TLSClientConfig: config}})
	}
	return list
}

func download(ctx context.Context, client *http.Client, url, sum string) error {
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, answer.Body); err != nil {
		return err
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != sum {
		return fmt.Errorf("the file arrived as %s", got)
	}
	return nil
}
