package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const page = 4096 // what tmpfs gives a file at a time

// The disk is full when the certificate is due for renewal, or gets full between the key and
// the certificate: the agent keeps using the present one, and renews it when there is room.
func TestRenewalOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	for room := range int64(2) {
		t.Run(fmt.Sprintf("room for %d files", room), func(t *testing.T) {
			c := newController(t)
			c.give(1, 1, "")
			c.hold = time.Second // renewals are tried between polls
			c.notBefore, c.notAfter = time.Now().Add(-2*time.Hour), time.Now().Add(59*time.Minute)
			n := newNode(t, c)
			path := n.cfg.StateDirectory
			if err := errors.Join(os.MkdirAll(path, 0o700), syscall.Mount("tmpfs", path, "tmpfs", 0, "size=128k,mode=0700")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
			full := make(chan struct{})
			n.linked = func() { fillUp(t, path, room); close(full) } // before anything is asked for over it
			n.start()
			<-full
			until(t, "Ready under the present certificate", n.ready(c, 1))
			until(t, "the status says why it is not renewed", func() bool {
				s := n.status().Controller
				return strings.Contains(s.RenewalError, "no space left on device") && s.CertificateSerial == "1" && s.Connected
			})
			if got := int64(c.count("POST /v1/node/certificate")); got != room {
				t.Errorf("%d certificates were asked for, want %d", got, room)
			}
			c.set(func() { c.notAfter = time.Now().Add(24 * time.Hour) })
			if err := os.Remove(path + "/ballast"); err != nil {
				t.Fatal(err)
			}
			until(t, "renewed", func() bool { s := n.status().Controller; return s.CertificateSerial != "1" && s.RenewalError == "" })
			if c.count("POST /v1/enroll") != 1 {
				t.Error("it enrolled anew")
			}
		})
	}
}

// fillUp leaves room for so many small files.
func fillUp(t *testing.T, path string, room int64) {
	t.Helper()
	f, err := os.Create(path + "/ballast")
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	size := int64(0)
	for err == nil {
		_, err = f.Write(make([]byte, page))
		size += page
	}
	size -= page
	if err := f.Truncate(max(0, size-room*page)); err != nil || size == 0 {
		t.Error(size, err)
	}
}
