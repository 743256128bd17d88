package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnTheUnixSocketOnlyRootIsAnOperator(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	w := newWorld(t)
	if a := w.call(w.local(), "GET", "/v1/tokens", ""); a.status != http.StatusOK {
		t.Errorf("root: %d %s", a.status, a.body)
	}
	w.must(os.Chmod(w.socket, 0o666)) // as an operator's mistake would
	w.must(os.Chmod(w.dir, 0o755))
	w.must(os.Chmod(filepath.Dir(w.dir), 0o755))
	conn := dialAs(t, 65534, w.socket)
	defer conn.Close()
	_, err := io.WriteString(conn, "GET /v1/tokens HTTP/1.1\r\nHost: controller\r\n\r\n")
	w.must(err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	w.must(err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("another user: %d", response.StatusCode)
	}
}

// dialAs connects on a thread that has given up root, and that ends with it.
func dialAs(t *testing.T, uid uintptr, socket string) net.Conn {
	t.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			done <- result{nil, errno}
			return
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.conn
}
