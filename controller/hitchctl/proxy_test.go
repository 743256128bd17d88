package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdProxy is `proxy BYTES`: from here on, the script reaches the controller by
// connections that break after the client has sent so many bytes.
func cmdProxy(ts *testscript.TestScript, _ bool, args []string) {
	limit, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	path := filepath.Join(ts.Getenv("DATA"), "proxy")
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	target := filepath.Join(ts.Getenv("DATA"), "s")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(conn, target, limit)
		}
	}()
	ts.Setenv("NODEHITCH_SERVER", "unix://"+path)
}

func forward(conn net.Conn, target string, limit int64) {
	defer conn.Close()
	server, err := new(net.Dialer).DialContext(context.Background(), "unix", target)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(server, io.LimitReader(conn, limit)); done <- struct{}{} }()
	go func() { _, _ = io.Copy(conn, server); done <- struct{}{} }()
	<-done
}

// cmdSilent is `silent`: a listener that never accepts a connection; $SILENT is its URL.
func cmdSilent(ts *testscript.TestScript, _ bool, _ []string) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = listener.Close() })
	ts.Setenv("SILENT", "https://"+listener.Addr().String())
}
