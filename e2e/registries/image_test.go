package registries

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/shared/api"
)

// diskFull: Docker's disk is too full for the image, until the test frees space.
func (s *server) diskFull(*results.Case) {
	t := s.T
	const filler = "/var/lib/docker/filler"
	s.Run("systemctl", "stop", "nodehitch-agent", "docker", "docker.socket")
	s.Run("mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", "/var/lib/docker")
	s.Run("systemctl", "start", "docker")
	s.Run("dd", "if=/dev/zero", "of="+filler, "bs=1M", "count=140", "status=none")
	s.Run("systemctl", "start", "nodehitch-agent")
	message := s.Says(api.ConditionRegistryRunning, api.ReasonNoSpace)
	if !strings.Contains(message, "/var/lib/docker") {
		t.Logf("the message does not say where: %s", message)
	}
	s.Run("rm", filler)
	s.runs()
	s.Run("systemctl", "stop", "nodehitch-agent", "docker", "docker.socket")
	s.Run("umount", "/var/lib/docker")
	s.Run("systemctl", "start", "docker", "nodehitch-agent")
	s.runs()
}

// manyBytes is how much larger the image is in the cases about its transfer.
const manyBytes = 200 << 20

// downloadCut: bytes that arrived before the controller was killed are not sent again.
func (s *server) downloadCut(r *results.Case) {
	t := s.T
	size := s.uploadImage(manyBytes + 1)
	s.put()
	const parts = "/var/lib/nodehitch/agent/files"
	got := ""
	s.Until("a part of the image is there", func() error {
		out, err := s.Try("find", parts, "-name", "*.part", "-size", "+8M", "-printf", "%s")
		if got = out; out == "" {
			return fmt.Errorf("no part, %w", err)
		}
		return nil
	})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	got, _ = s.Try("find", parts, "-name", "*.part", "-printf", "%s")
	if err := s.Site.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.runs()
	r.Figure("fetched when the controller was killed", "%s of %d bytes", got, size)
	if left := s.Run("find", parts, "-type", "f"); left != "" {
		t.Errorf("the image file is still there after it was loaded: %s", left)
	}
}

// took sums the times of the actions of this condition, in the agent's log since a
// time that `date +%s` gave, whose summaries begin with a word.
func (m *machine) took(since, condition, begins string) time.Duration {
	m.W.T.Helper()
	log := m.Run("journalctl", "--unit=nodehitch-agent", "--output=cat", "--no-pager", "--since=@"+since)
	finished := regexp.MustCompile(`\bcondition=` + condition + ` action="?` + begins + `.* took=(\S+)`)
	var sum time.Duration
	for _, found := range finished.FindAllStringSubmatch(log, -1) {
		took, err := time.ParseDuration(found[1])
		if err != nil {
			m.W.T.Fatal(err)
		}
		sum += took
	}
	if sum == 0 {
		m.W.T.Errorf("the agent's log does not say how long %q took:\n%s", begins, log)
	}
	return sum
}

// transfer compares the agent's fetch of the image with a copy of the same bytes over
// a TCP connection of the same host, to a file on the same disk.
func (s *server) transfer(r *results.Case) {
	began := s.Run("date", "+%s")
	size := s.uploadImage(manyBytes + 2)
	s.put()
	s.runs()
	took, cat := s.took(began, api.ConditionRegistryRunning, "fetch"), s.cat(size)
	r.Figure("fetch", "%d MB in %.2f s, %.0f MB/s, SHA-256 verified", size/1e6, took.Seconds(), float64(size)/1e6/took.Seconds())
	r.Figure("cat over loopback", "%.2f s; the fetch takes %.1f times that", cat.Seconds(), took.Seconds()/cat.Seconds())
	s.uploadImage(0)
	s.put()
	s.runs()
}

// cat is how long the same number of bytes takes from one file to another through TCP on
// loopback.
func (s *server) cat(size int) time.Duration {
	t := s.T
	dir := s.Lab.Dir()
	from, to := filepath.Join(dir, "cat-from"), filepath.Join(dir, "cat-to")
	image := make([]byte, size)
	if err := os.WriteFile(from, image, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // it has served
	began := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- send(t.Context(), listener.Addr().String(), from) }()
	if err := receive(listener, to); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

func send(ctx context.Context, address, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.Copy(c, f)
	return err
}

func receive(listener net.Listener, path string) error {
	c, err := listener.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = io.Copy(f, c); err != nil {
		return err
	}
	return f.Sync() // as the agent does
}

func (s *server) killed(r *results.Case) {
	killed := s.killedDuring(func() {
		s.uploadImage(1 << 20)
		s.section("private_registry_installation_param")["port_no"] = "5001"
		s.put()
		s.Says(api.ConditionRegistryRunning, api.ReasonRunning)
		s.answers("5001")
		delete(s.section("private_registry_installation_param"), "port_no")
		s.uploadImage(0)
		s.put()
		s.runs()
	})
	r.Figure("killed", "%d times", killed)
	if killed < 4 {
		s.T.Errorf("the agent was killed %d times only", killed)
	}
	s.stays()
}
