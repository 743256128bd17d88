package replica_test

import (
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"

	"github.com/nodehitch/nodehitch/controller/httpapi"
	"github.com/nodehitch/nodehitch/controller/replica"
)

// BenchmarkHeldPolls is the memory that a held poll takes between replicas: at the follower and at
// the leader's listener together, without the TLS of the caller and without the API.
func BenchmarkHeldPolls(b *testing.B) {
	const polls = 2000
	leader, held := newSite(b, 1<<20), newSilent()
	leader.Lead(held, func() {})
	client := replica.NewClient(trust(b, 1))
	defer client.Close()
	log := slog.New(slog.DiscardHandler)
	server := httpapi.NewServer(replica.NewForwarder(replica.ForwarderOptions{ID: "b", Leader: func() string { return leader.url }, Client: client, Log: log}), log)
	l := listen(b)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	defer func() { _ = server.Close(); <-done }()
	conns := make([]net.Conn, polls)
	for i := range conns {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", l.Addr().String())
		must(b, err)
		conns[i] = conn
	}
	before := inUse()
	for _, conn := range conns {
		_, err := io.WriteString(conn, "GET /v1/node/config HTTP/1.1\r\nHost: controller\r\nIf-None-Match: \"x\"\r\n\r\n")
		must(b, err)
	}
	for range conns {
		<-held.begun
	}
	taken := inUse() - before
	for _, conn := range conns {
		must(b, conn.Close())
	}
	for b.Loop() { // the figures are of the above
		continue
	}
	b.ReportMetric(float64(taken)/polls, "B/poll")
	b.ReportMetric(float64(leader.listener.accepted.Load()), "connections")
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
