package registryclient_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nodehitch/nodehitch/agent/role/registryclient/registrytest"
	realcontainerd "github.com/nodehitch/nodehitch/e2e/containerd"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestPulls: with the files that the agent writes, each containerd pulls through its CRI
// from a registry that wants a client certificate and a login, and whose CA is the owner's.
func TestPulls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: containerd does not start without")
	}
	ca := registrytest.CA(t, "CA", registrytest.Now())
	client := ca.Issue(t, registrytest.Now(), "node")
	server := registrytest.Start(t, registrytest.Options{
		Certificate: ca.Issue(t, registrytest.Now(), "127.0.0.1"), ClientCA: ca, Username: "user01", Password: "geheim",
	})
	image := server + "/team/app:1"
	push(t, ca, client, image)
	for _, version := range append([]string{""}, realcontainerd.Versions...) {
		t.Run(cmp.Or(version, "installed"), func(t *testing.T) {
			r := machine(t, containerd(t, version))
			for name, content := range map[string][]byte{"ca.crt": ca.PEM, "client.cert": client.PEM, "client.key": client.Key} {
				file(certsD+server+"/"+name, string(content))(r.m)
			}
			r.connect(api.RegistryConnection{Server: server, Scheme: api.RegistryHTTPS, Username: "user01", Password: "geheim"}).expect(connected)
			socket := r.startContainerd(version)
			if err := pull(t, socket, image); err != nil {
				t.Error(err)
			}
		})
	}
}

// startContainerd starts a real containerd with the machine's files, and returns its socket.
func (r *rig) startContainerd(version string) string {
	r.t.Helper()
	_, program := realcontainerd.Installed()
	if version != "" {
		program = realcontainerd.Program(r.t, version)
	}
	root := r.t.TempDir()
	for name, f := range r.m.Files {
		to := filepath.Join(root, name)
		content := strings.ReplaceAll(f.Content, `"/etc/`, `"`+root+`/etc/`)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(content), 0o600)); err != nil {
			r.t.Fatal(err)
		}
	}
	socket := filepath.Join(root, "s")
	var log bytes.Buffer
	cmd := exec.Command(program, "--config", root+configTOML, "--root", root+"/root", "--state", root+"/state", "--address", socket) //nolint:noctx // it ends with the test, by the clean-up
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("containerd's log ends with:\n%s", log.Bytes()[max(0, log.Len()-4000):])
		}
	})
	return socket
}

// raw is messages of protobuf in their wire format.
type raw struct{}

func (raw) Name() string                       { return "proto" }
func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func field(number byte, content ...byte) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
}

// pull asks the CRI for an image with a login, as kubelet does; it waits for containerd.
func pull(t *testing.T, socket, image string) error {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	login := append(field(1, []byte("user01")...), field(2, []byte("geheim")...)...)
	request := append(field(1, field(1, []byte(image)...)...), field(2, login...)...)
	var answer []byte
	return connection.Invoke(ctx, "/runtime.v1.ImageService/PullImage", &request, &answer, grpc.ForceCodec(raw{}), grpc.WaitForReady(true))
}

// push puts a small image into a registry.
func push(t *testing.T, ca, client *registrytest.Certificate, image string) {
	t.Helper()
	server, rest, _ := strings.Cut(image, "/")
	name, tag, _ := strings.Cut(rest, ":")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{client.TLS()}, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	send := func(method, url, kind string, body []byte) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("user01", "geheim")
		request.Header.Set("Content-Type", kind)
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s", method, url, answer.Status)
		}
		return answer.Header.Get("Location")
	}
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	const media = "application/vnd.oci.image."
	blob := func(kind string, content []byte) descriptor {
		d := descriptor{media + kind, fmt.Sprintf("sha256:%x", sha256.Sum256(content)), len(content)}
		to := send(http.MethodPost, "https://"+server+"/v2/"+name+"/blobs/uploads/", "", nil)
		send(http.MethodPut, to+"&digest="+d.Digest, "application/octet-stream", content)
		return d
	}
	var plain, packed bytes.Buffer
	archive := tar.NewWriter(&plain)
	err := errors.Join(archive.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: 1}), second(archive.Write([]byte("x"))), archive.Close())
	compressed := gzip.NewWriter(&packed)
	if err = errors.Join(err, second(compressed.Write(plain.Bytes())), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`, sha256.Sum256(plain.Bytes()))
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": media + "manifest.v1+json",
		"config": blob("config.v1+json", []byte(config)), "layers": []descriptor{blob("layer.v1.tar+gzip", packed.Bytes())},
	})
	if err != nil {
		t.Fatal(err)
	}
	send(http.MethodPut, "https://"+server+"/v2/"+name+"/manifests/"+tag, media+"manifest.v1+json", manifest)
}

func second(_ int, err error) error { return err }
