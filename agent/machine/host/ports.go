package host

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Listener is a process that listens on a port; PID is 0 if the process is unknown.
type Listener struct {
	PID     int
	Program string
}

func (l Listener) String() string {
	if l.PID == 0 {
		return "an unknown process"
	}
	return fmt.Sprintf("%s (process %d)", l.Program, l.PID)
}

// Answer is an answer to a GET: the beginning of its body, and its headers.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ports are the TCP ports of this machine.
type Ports interface {
	// Listeners are the processes that listen on a port, at any address of the machine.
	Listeners(port int) ([]Listener, error)
	// Get sends a plain HTTP request to the port on the loopback address. It waits a few
	// seconds and follows no redirect.
	Get(ctx context.Context, port int, path string) (Answer, error)
	// GetTLS is Get by HTTPS. It verifies no certificate: what listens on the loopback address
	// often has one that it has signed itself.
	GetTLS(ctx context.Context, port int, path string) (Answer, error)
}

type ports struct{ proc string }

// listening is the state LISTEN of /proc/net/tcp.
const listening = "0A"

func (p *ports) Listeners(port int) ([]Listener, error) {
	var inodes []string
	for _, table := range []string{"tcp", "tcp6"} {
		found, err := socketsAt(filepath.Join(p.proc, "self/net", table), port)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			return nil, fmt.Errorf("finding what listens on port %d: %w", port, err)
		}
		inodes = append(inodes, found...)
	}
	if len(inodes) == 0 {
		return nil, nil
	}
	found := p.holders(inodes)
	if len(found) == 0 {
		found = []Listener{{}}
	}
	return found, nil
}

// socketsAt are the inodes of the sockets that listen on a port.
func socketsAt(table string, port int) ([]string, error) {
	f, err := os.Open(table)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var inodes []string
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return inodes, lines.Err()
		}
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		if found, err := strconv.ParseUint(hex, 16, 16); err == nil && int(found) == port {
			inodes = append(inodes, fields[9])
		}
	}
}

// holders are the processes that have one of the sockets open. It skips a process that ends
// in between.
func (p *ports) holders(inodes []string) []Listener {
	links, _ := filepath.Glob(filepath.Join(p.proc, "[0-9]*/fd/*")) // the pattern is right
	var found []Listener
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		inode, ok := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		if !ok || !slices.Contains(inodes, inode) {
			continue
		}
		directory := filepath.Dir(filepath.Dir(link))
		pid, _ := strconv.Atoi(filepath.Base(directory)) // the pattern has digits only
		name, _ := os.ReadFile(filepath.Join(directory, "comm"))
		l := Listener{PID: pid, Program: strings.TrimSpace(string(name))}
		if !slices.Contains(found, l) {
			found = append(found, l)
		}
	}
	return found
}

// loopback is for one GET at a time: it keeps no connection and uses no proxy.
var loopback = http.Client{
	Timeout: 5 * time.Second,
	Transport: &http.Transport{
		DisableKeepAlives: true, Proxy: nil,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see GetTLS: it never leaves the machine
		DialContext:     (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (p *ports) Get(ctx context.Context, port int, path string) (Answer, error) {
	return p.get(ctx, "http", port, path)
}

func (p *ports) GetTLS(ctx context.Context, port int, path string) (Answer, error) {
	return p.get(ctx, "https", port, path)
}

func (p *ports) get(ctx context.Context, scheme string, port int, path string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, port, path), http.NoBody)
	if err != nil {
		return Answer{}, err
	}
	resp, err := loopback.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}, err
}
