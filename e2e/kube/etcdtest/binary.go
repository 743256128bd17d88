package etcdtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/loopback"
)

// T is what a test has to be for OfBinary: testing.TB and rapid's are.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// untilItsEnd ends etcd and removes its data at the end of standard input, which the kernel
// closes with the process that has the other end.
const untilItsEnd = `dir=$1; shift; "$@" & read -r _; kill -KILL $!; wait; rm -rf "$dir"`

// ofBinary is the etcd of this test binary.
var ofBinary struct {
	once sync.Once
	url  string
	err  error
	// end is closed with this process.
	end io.WriteCloser
}

// OfBinary is the URL of an etcd with one member for all tests of this binary. Who asks first
// starts it. It takes transactions as large as docs/replicas.md advises, and flushes nothing.
func OfBinary(t T) (url string) {
	t.Helper()
	ofBinary.once.Do(func() { ofBinary.url, ofBinary.err = startOfBinary() })
	if ofBinary.err != nil {
		t.Fatalf("starting etcd for the tests of this binary: %v", ofBinary.err)
	}
	return ofBinary.url
}

func startOfBinary() (url string, err error) {
	binaries, err := kube.FindEtcd("") // held open, so that it stays
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "nodehitch-etcd-")
	if err != nil {
		return "", err
	}
	client, _, err := loopback.Reserve()
	if err != nil {
		return "", err
	}
	peer, _, err := loopback.Reserve()
	if err != nil {
		return "", err
	}
	url, peers := "http://"+client, "http://"+peer
	cmd := exec.Command("sh", "-c", untilItsEnd, "sh", dir, filepath.Join(binaries.Dir, "etcd"), "--name=m0", "--data-dir="+filepath.Join(dir, "m0"), //nolint:noctx // it ends with this process
		"--log-level=error", "--unsafe-no-fsync", "--max-txn-ops=1024", "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=m0="+peers)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the tests
	if ofBinary.end, err = cmd.StdinPipe(); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	return url, ready(url)
}

// ready waits until an etcd serves.
func ready(url string) error {
	limit := time.After(90 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := http.Get(url + "/readyz") //nolint:noctx,gosec // on this machine, and the limit ends it
		if err == nil {
			err = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return err
			}
			err = errors.Join(err, fmt.Errorf("it answers %s", answer.Status))
		}
		select {
		case <-tick.C:
		case <-limit:
			return fmt.Errorf("it is not ready: %w", err)
		}
	}
}
