package crowd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Crowd is a process with agents. It ends with the test.
type Crowd struct {
	// PID of the process.
	PID int

	input  io.WriteCloser
	output *bufio.Reader
	stop   func()
}

// Start starts one, with agents that go on where those of an earlier one with the same order
// have stopped. wrap is put before its argv, such as [nsenter, --net=…].
func Start(t testing.TB, o Order, wrap ...string) *Crowd {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(o)
	must(err)
	self, err := os.Executable()
	must(err)
	argv := append(slices.Clone(wrap), self)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	must(err)
	output, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	stop := sync.OnceFunc(func() {
		input.Close()
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("a crowd ended with %v", err)
		}
	})
	t.Cleanup(stop)
	_, err = input.Write(append(text, '\n'))
	must(err)
	return &Crowd{PID: cmd.Process.Pid, input: input, output: bufio.NewReader(output), stop: stop}
}

// Stop ends it before the test's end.
func (c *Crowd) Stop() { c.stop() }

// Tally asks for it.
func (c *Crowd) Tally() (t Tally, err error) {
	if _, err := c.input.Write([]byte("\n")); err != nil {
		return t, err
	}
	line, err := c.output.ReadBytes('\n')
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(line, &t)
}

// Add adds what has happened in another tally, and the agents of another crowd.
func (t *Tally) Add(other Tally) {
	t.Connected += other.Connected
	t.Open += other.Open
	t.Longest, t.Enrolled = max(t.Longest, other.Longest), t.Enrolled+other.Enrolled
	add(&t.Digests, other.Digests)
	add(&t.Dials, other.Dials)
	add(&t.Refused, other.Refused)
	add(&t.Errors, other.Errors)
}

func add[K comparable](to *map[K]int, from map[K]int) {
	if *to == nil {
		*to = map[K]int{}
	}
	for key, n := range from {
		(*to)[key] += n
	}
}

// FirstErrors are some of the errors, one a line.
func (t Tally) FirstErrors() string {
	var b strings.Builder
	for _, text := range slices.Sorted(maps.Keys(t.Errors))[:min(10, len(t.Errors))] {
		fmt.Fprintf(&b, "%6d %s\n", t.Errors[text], text)
	}
	return b.String()
}
