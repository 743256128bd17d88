package registries

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/registry"
)

const (
	dockerLogins  = "/root/.docker/config.json"
	kubeletLogins = "/var/lib/kubelet/config.json"
	hostsDir      = "/etc/containerd/certs.d"
)

// load puts an image into the machine's Docker, from a file that is made here.
func (m *machine) load(image registry.Image) {
	m.W.T.Helper()
	var file bytes.Buffer
	if err := image.Write(&file); err != nil {
		m.W.T.Fatal(err)
	}
	const path = "/var/tmp/image.tar"
	if err := m.Push(m.W.T.Context(), path, 0o600, file.Bytes()); err != nil {
		m.W.T.Fatal(err)
	}
	m.Run("docker", "load", "--quiet", "--input", path)
	m.Run("rm", path)
}

// pushNew makes a new image and pushes it from the machine, under a name that begins with
// the server; it returns the name.
func (m *machine) pushNew(server string) string {
	m.W.T.Helper()
	name, err := m.tryPushNew(server)
	if err != nil {
		m.W.T.Fatal(err)
	}
	return name
}

var images uint64 // made so far, so that each has other bytes

func (m *machine) tryPushNew(server string) (string, error) {
	images++
	name := fmt.Sprintf("%s/from/%s:%d", server, m.Name(), images)
	m.load(registry.Small(name, 64<<10, images))
	return name, m.retryLookup("docker", "push", "--quiet", name)
}

// retryLookup runs a program that resolves a name of /etc/hosts, and retries failed
// lookups. Docker and containerd are Go programs, which read that file every five seconds.
func (m *machine) retryLookup(argv ...string) error {
	m.W.T.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(time.Second); ; <-tick.C {
		out, err := m.Try(argv...)
		if err == nil || !strings.Contains(err.Error()+out, ": lookup ") || time.Now().After(deadline) {
			return err
		}
	}
}

// pulls pulls an image by each way that the node has: Docker, containerd's own client
// by the hosts directory, and containerd's CRI as the kubelet does.
func (m *machine) pulls(name string) {
	m.W.T.Helper()
	for _, err := range []error{
		m.retryLookup("docker", "pull", "--quiet", name), m.retryLookup(m.ctrPull(name)...), m.criPull(name),
	} {
		if err != nil {
			m.W.T.Fatal(err)
		}
	}
}

func (m *machine) ctrPull(name string) []string {
	argv := []string{"ctr", "images", "pull", "--hosts-dir", hostsDir}
	if user, password := m.login(dockerLogins, name); user != "" {
		argv = append(argv, "--user", user+":"+password)
	}
	return append(argv, name)
}

// login is what a file of Docker's form has for the server of an image.
func (m *machine) login(path, image string) (user, password string) {
	var file struct {
		Auths map[string]struct{ Auth string }
	}
	server, _, _ := strings.Cut(image, "/")
	if json.Unmarshal([]byte(m.read(path)), &file) != nil {
		return "", ""
	}
	pair, err := base64.StdEncoding.DecodeString(file.Auths[server].Auth)
	if err != nil {
		m.W.T.Errorf("%s: the login of %s: %v", path, server, err)
	}
	user, password, _ = strings.Cut(string(pair), ":")
	return user, password
}

// criPull asks containerd's CRI for an image, with the login that the kubelet would
// find: PullImage of runtime.v1.ImageService, whose messages are small enough to be
// written here. There is no crictl in Debian; curl speaks HTTP/2.
func (m *machine) criPull(name string) error {
	request := field(1, field(1, []byte(name)))
	if user, password := m.login(kubeletLogins, name); user != "" {
		request = append(request, field(2, append(field(1, []byte(user)), field(2, []byte(password))...))...)
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))
	const path = "/run/lab-cri-request"
	if err := m.Push(context.WithoutCancel(m.W.T.Context()), path, 0o600, append(frame, request...)); err != nil {
		return err
	}
	answer := ""
	m.W.Until("containerd's CRI pulls "+name, func() error {
		out, err := m.Try("curl", "--silent", "--show-error", "--http2-prior-knowledge",
			"--unix-socket", "/run/containerd/containerd.sock", "--header", "content-type: application/grpc", "--header", "te: trailers",
			"--data-binary", "@"+path, "--dump-header", "-", "--output", "/dev/null", "http://localhost/runtime.v1.ImageService/PullImage")
		if answer = out; strings.Contains(out, ": lookup ") {
			return fmt.Errorf("%s", out) // see retryLookup
		}
		return err
	})
	if !strings.Contains(answer, "grpc-status: 0") {
		return fmt.Errorf("containerd's CRI does not pull %s:\n%s", name, answer)
	}
	return nil
}

// field is a field of bytes in protobuf's wire format.
func field(number int, content []byte) []byte {
	out := []byte{byte(number<<3 | 2)}
	out = binary.AppendUvarint(out, uint64(len(content)))
	return append(out, content...)
}
