package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// crowdEnvironment makes the test binary a crowd of agents: a process of its own,
// so that what the controller costs can be measured alone.
const crowdEnvironment = "NODEHITCH_TEST_CROWD"

// order is what the crowd is told on its standard input.
type order struct {
	Address, ETag          string
	Root, Certificate, Key []byte
	Agents                 int
}

// crowd opens connections, sends one poll on each, and waits for the end of its
// standard input.
func crowd() int {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	var o order
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.Root)
	certificate, err := tls.X509KeyPair(o.Certificate, o.Key)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	poll := "GET /v1/node/config HTTP/1.1\r\nHost: controller\r\nIf-None-Match: " + o.ETag + "\r\n\r\n"
	dialer := &tls.Dialer{Config: config}
	open := make([]net.Conn, 0, o.Agents) // one that is collected is closed
	for range o.Agents {
		conn, err := dialer.DialContext(context.Background(), "tcp", o.Address)
		if err == nil {
			_, err = io.WriteString(conn, poll)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		open = append(open, conn)
	}
	_, _ = io.Copy(io.Discard, input)
	runtime.KeepAlive(open)
	return 0
}

// BenchmarkHeldPolls holds 2,000 polls over mutual TLS on loopback and reports
// what each costs the controller in memory, and how long it takes to answer all.
func BenchmarkHeldPolls(b *testing.B) {
	const agents = 2000
	for b.Loop() {
		w := newWorld(b, pollSeconds(300))
		node, _ := w.enroll()
		known := etag(b, w, node)
		node.CloseIdleConnections()
		before := inUse()
		leave := w.gather(b, node, known, agents)
		eventually(b, "all are held", func() bool { return w.Hub.Waiting() == agents })
		after := inUse()
		b.ReportMetric(float64(after.heap-before.heap)/agents/1024, "heap-KiB/poll")
		b.ReportMetric(float64(after.stack-before.stack)/agents/1024, "stack-KiB/poll")
		b.ReportMetric(float64(after.resident-before.resident)/agents/1024, "RSS-KiB/poll")
		w.handler.Drain()
		eventually(b, "all are answered", func() bool { return w.Hub.Waiting() == 0 })
		leave()
	}
}

// gather starts a crowd with the identity of node and returns how to end it.
func (w *world) gather(t testing.TB, node *http.Client, known string, agents int) (leave func()) {
	t.Helper()
	certificate := node.Transport.(*http.Transport).TLSClientConfig.Certificates[0]
	chain, key := pemOf(t, certificate)
	text, err := json.Marshal(order{Address: strings.TrimPrefix(w.url, "https://"), ETag: known,
		Root: []byte(w.Authority.RootPEM()), Certificate: chain, Key: key, Agents: agents})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), crowdEnvironment+"=1")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	w.must(err)
	w.must(cmd.Start())
	_, err = input.Write(append(text, '\n'))
	w.must(err)
	return func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

type memory struct{ heap, stack, resident uint64 }

// inUse is what the process uses after a collection.
func inUse() memory {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, _ := os.ReadFile("/proc/self/status")
	var resident uint64
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			resident = n << 10
		}
	}
	return memory{heap: m.HeapAlloc, stack: m.StackInuse, resident: resident}
}
