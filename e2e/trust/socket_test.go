package trust

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/e2e/loopback"
	"github.com/nodehitch/nodehitch/shared/client/testca"
)

const nobody = 65534

func TestSocket(t *testing.T) {
	loopback.RequireRoot(t)
	w := newTarget(t, loopback.Options{})
	run(t, w, []trial{
		{"socket: not root", "the socket's mode keeps other users out; if an operator opens it to them, the peer credentials of the kernel do", notRoot},
		{"socket: a node's operations", "root on the socket is an operator, not a node", rootIsNoNode},
	})
}

func notRoot(a *attempt) {
	socket := filepath.Join(a.w.Dir, "socket")
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		a.Errorf("the socket's mode is %v (%v)", info.Mode(), err)
	}
	// A path to it that every user may take, like /run/nodehitch: the folders of a test
	// are root's own.
	public, err := os.MkdirTemp("", "nodehitch-trust-")
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() {
		if err := os.RemoveAll(public); err != nil {
			a.Error(err)
		}
	})
	way := filepath.Join(public, "socket")
	if err := errors.Join(os.Chmod(public, 0o755), os.Link(socket, way)); err != nil {
		a.Fatal(err)
	}
	user := a.w.onSocketAs(way, nobody)
	got := user.call(http.MethodGet, "/v1/nodes", "")
	a.hungUp("a user who may not open it", got)
	if !errors.Is(got.err, os.ErrPermission) {
		a.Errorf("the error is %v", got.err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		a.Fatal(err)
	}
	for _, d := range demands(a) {
		if d.need == "open" {
			continue
		}
		a.refused(d.id, user.call(d.method, d.path, ""), http.StatusUnauthorized)
	}
	a.allowed("what is open", user.call(http.MethodGet, "/healthz", ""), http.StatusOK)
	a.allowed("root, the same way", a.w.onSocket(way).call(http.MethodGet, "/v1/nodes", ""), http.StatusOK)
}

func rootIsNoNode(a *attempt) {
	line := a.w.onSocket(filepath.Join(a.w.Dir, "socket"))
	m := &machine{caller: line, w: a.w, id: a.w.ours.storage, key: testca.NewKey()}
	everything(a, m, "root", http.StatusUnauthorized)
	a.refused("renewal", m.renew(), http.StatusUnauthorized)
}

// onSocket speaks to a unix socket of the controller as this process's user.
func (w *target) onSocket(path string) *caller { return w.onSocketAs(path, os.Geteuid()) }

// onSocketAs does so as another user of the machine.
func (w *target) onSocketAs(path string, uid int) *caller {
	transport := &http.Transport{DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialAs(ctx, path, uid) }
	return &caller{t: w.t, base: "http://controller", http: &http.Client{Transport: transport}}
}

// dialAs connects as a user of the machine: both the file's mode and SO_PEERCRED go
// by who connects.
func dialAs(ctx context.Context, path string, uid int) (net.Conn, error) {
	return asUser(uid, func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) })
}

// asUser opens something on a thread that is another user's meanwhile. One that
// cannot go back stays locked and ends with its goroutine.
func asUser[T any](uid int, open func() (T, error)) (T, error) {
	type result struct {
		opened T
		err    error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		var r result
		me, group := os.Geteuid(), os.Getegid()
		// /proc goes by the group too, which has the user's number here.
		if r.err = errors.Join(become(unix.SYS_SETRESGID, uid, group), become(unix.SYS_SETRESUID, uid, me)); r.err != nil {
			done <- r
			return
		}
		r.opened, r.err = open()
		if errors.Join(become(unix.SYS_SETRESUID, me, me), become(unix.SYS_SETRESGID, group, group)) == nil {
			runtime.UnlockOSThread()
		}
		done <- r
	}()
	r := <-done
	return r.opened, r.err
}

// become makes the thread another user's or group's, who may become saved again.
func become(call, id, saved int) error {
	if _, _, errno := unix.RawSyscall(uintptr(call), uintptr(id), uintptr(id), uintptr(saved)); errno != 0 {
		return fmt.Errorf("becoming user or group %d: %w", id, errno)
	}
	return nil
}
