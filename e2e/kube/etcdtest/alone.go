package etcdtest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/e2e/kube"
	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/e2e/process"
)

// Alone is an etcd with one member for a program that is no test: its URL, and what ends it and
// removes its data. It takes transactions as large as docs/replicas.md advises, and flushes
// nothing.
func Alone() (url string, end func() error, err error) {
	binaries, err := kube.FindEtcd("")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "nodehitch-etcd-")
	if err != nil {
		return "", nil, errors.Join(err, binaries.Close())
	}
	remove := func() error { return errors.Join(os.RemoveAll(dir), binaries.Close()) }
	var addresses []string
	for range 2 {
		address, release, err := loopback.Reserve()
		if err != nil {
			return "", nil, errors.Join(err, remove())
		}
		defer release() // etcd listens then
		addresses = append(addresses, "http://"+address)
	}
	url = addresses[0]
	cmd := exec.Command(filepath.Join(binaries.Dir, "etcd"), "--name=m0", "--data-dir="+filepath.Join(dir, "m0"), //nolint:noctx // end ends it
		"--log-level=error", "--unsafe-no-fsync", "--max-txn-ops=1024", "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+addresses[1], "--initial-advertise-peer-urls="+addresses[1], "--initial-cluster=m0="+addresses[1])
	cmd.Stderr = os.Stderr
	running, err := process.Start(cmd)
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	kill := func() error {
		_ = running.Process.Kill()
		<-running.Ended()
		return remove()
	}
	if err := ready(url, running); err != nil {
		return "", nil, errors.Join(fmt.Errorf("starting etcd: %w", err), kill())
	}
	return url, kill, nil
}

// ready waits until an etcd serves.
func ready(url string, running *process.Process) error {
	limit := time.After(90 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := http.Get(url + "/readyz") //nolint:noctx // the limit ends it
		if err == nil {
			err = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return err
			}
			err = errors.Join(err, fmt.Errorf("it answers %s", answer.Status))
		}
		select {
		case <-tick.C:
		case <-running.Ended():
			return fmt.Errorf("it ended: %w", running.How())
		case <-limit:
			return fmt.Errorf("it is not ready: %w", err)
		}
	}
}
