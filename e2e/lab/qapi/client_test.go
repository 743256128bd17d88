package qapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// peer plays the other end of a channel: for every line it is sent it prints
// what answer returns.
func peer(t *testing.T, greeting string, answer func(line string) string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, greeting)
		for lines := bufio.NewScanner(c); lines.Scan(); {
			out := answer(lines.Text())
			if out == "hang up" {
				return
			}
			fmt.Fprint(c, out)
		}
	}()
	return path
}

// id of a request line, as the client wrote it.
func id(line string) string {
	_, rest, _ := strings.Cut(line, `"id":`)
	return strings.TrimRight(rest[strings.LastIndex(rest, ":")+1:], "}")
}

func TestMonitorAnswersEventsAndRefusals(t *testing.T) {
	path := peer(t, `{"QMP": {"version": {}, "capabilities": []}}`+"\n", func(line string) string {
		switch {
		case strings.Contains(line, "query-status"):
			return `{"event": "STOP", "data": {"n": 1}}` + "\n" + `{"return": {"status": "paused"}, "id": ` + id(line) + "}\n"
		case strings.Contains(line, "nonsense"):
			return `{"error": {"class": "CommandNotFound", "desc": "no such command"}, "id": ` + id(line) + "}\n"
		case strings.Contains(line, "quit"):
			return "hang up"
		}
		return `{"return": {}, "id": ` + id(line) + "}\n"
	})
	c, err := DialMonitor(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stops, _ := c.Watch("STOP")
	var status struct{ Status string }
	if err := c.Do(t.Context(), "query-status", nil, &status); err != nil || status.Status != "paused" {
		t.Errorf("got %+v, %v", status, err)
	}
	if e := <-stops; string(e.Data) != `{"n": 1}` {
		t.Errorf("the event carried %s", e.Data)
	}
	refusal := (*Error)(nil)
	if err := c.Do(t.Context(), "nonsense", nil, nil); !errors.As(err, &refusal) || refusal.Class != "CommandNotFound" {
		t.Errorf("a refused command: %v", err)
	}
	if err := c.Do(t.Context(), "quit", nil, nil); err == nil || errors.As(err, &refusal) {
		t.Errorf("a connection that ended: %v", err)
	}
	if _, open := <-stops; open {
		t.Error("a watch outlives the connection")
	}
}

// After a reboot the channel still holds half an answer, and the first
// question may be lost with the old guest.
func TestSyncDropsAnEarlierBoot(t *testing.T) {
	asked := 0
	path := peer(t, `{"return": {"out-data": "half of an ans`, func(line string) string {
		asked++
		if asked == 1 {
			return ""
		}
		return "\xff" + `{"return": 7, "id": ` + id(line) + "}\n"
	})
	c, err := DialAgent(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Sync(t.Context()); err != nil || asked < 2 {
		t.Errorf("after %d questions: %v", asked, err)
	}
}

func TestSyncEndsWithItsContext(t *testing.T) {
	path := peer(t, "", func(string) string { return "" })
	c, err := DialAgent(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
