package supportbundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/hitchctl/supportbundle"
	"github.com/nodehitch/nodehitch/shared/api"
)

var at = time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)

// packed is the bundle as it is sent, and its files.
func packed(t *testing.T, b *supportbundle.Bundle) (size int, files map[string]string) {
	t.Helper()
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	size = out.Len()
	plain, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for archive := tar.NewReader(plain); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return size, files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil || path.Dir(head.Name) != "nodehitch-support-20261128T100000Z" || head.Mode != 0o600 {
			t.Fatalf("%s, mode %o: %v", head.Name, head.Mode, err)
		}
		files[path.Base(head.Name)] = string(content)
	}
}

func TestWhatIsCutIsSaid(t *testing.T) {
	b := supportbundle.New(at)
	b.Head = []string{"made by a test"}
	items := make([]string, supportbundle.MostItems+1)
	supportbundle.Items(b, "many.jsonl", "small things", items, supportbundle.MostItems)
	large := strings.Repeat("x", 5<<20)
	supportbundle.Items(b, "large.jsonl", "large things", []string{large, large, large, large}, 10)
	supportbundle.Items(b, "few.jsonl", "few things", []string{"\u202e"}, 10)
	b.Text("long.txt", "long lines", strings.Repeat(large+"\n", 4)+"the end\n")
	b.Missing("metrics.txt", errors.New("not allowed:\n\x1b[2J the scope is viewer"))
	_, files := packed(t, b)
	if n := strings.Count(files["many.jsonl"], "\n"); n != supportbundle.MostItems {
		t.Errorf("%d small things", n)
	}
	if n := strings.Count(files["large.jsonl"], "\n"); n != 3 {
		t.Errorf("%d large things", n)
	}
	if long := files["long.txt"]; len(long) > 16<<20 || !strings.HasPrefix(long, "xxx") || !strings.HasSuffix(long, "\nthe end\n") {
		t.Errorf("%d bytes of long lines", len(long))
	}
	if files["few.jsonl"] != `"\u202e"`+"\n" {
		t.Errorf("%q does something where it is read", files["few.jsonl"])
	}
	for _, want := range []string{"made by a test\n", "the first 5000 of 5001 small things\n", "the first 3 of 4 large things\n", "1 few things\n",
		"long lines; of 20971532 bytes, the last ", "What could not be had:\n  metrics.txt: not allowed: ?[2J the scope is viewer\n"} {
		if !strings.Contains(files[supportbundle.Index], want) {
			t.Errorf("the index has no %q:\n%s", want, files[supportbundle.Index])
		}
	}
	if lacking := b.Lacking(); len(lacking) != 4 || !strings.HasPrefix(lacking[0], "many.jsonl has the first 5000 of 5001") {
		t.Errorf("it lacks %q", lacking)
	}
}

// A large fleet fits into a mail: 2,000 nodes, each with ids of its own, and all events that there may be.
func TestTheSizeOfALargeFleet(t *testing.T) {
	nodes := make([]api.Node, 2000)
	for i := range nodes {
		id := fmt.Sprintf("%08x-7d1e-4c8c-9a06-%012x", uint32(i*2654435761), i*7919)
		n := api.Node{ID: id, Name: fmt.Sprintf("worker-%d", i), VnfInstanceID: "0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e", Role: api.RoleWorker, State: api.NodeEnrolled, Ready: i%2 == 0,
			Status: &api.NodeStatus{ObservedDigest: strings.Repeat(fmt.Sprintf("%08x", i), 8)}}
		for _, condition := range []string{"Ready", "RegistriesConnected", "ClusterMember", "NFSClientReady"} {
			n.Status.Conditions = append(n.Status.Conditions, api.Condition{Type: condition, Status: api.ConditionFalse, Reason: api.ReasonUnreachable,
				Message: fmt.Sprintf("registry-%d.example.com does not answer", i), LastTransitionTime: at.Add(time.Duration(i) * time.Millisecond)})
		}
		nodes[i] = n
	}
	events := make([]api.Event, 10_000)
	for i := range events {
		n := nodes[i%len(nodes)]
		events[i] = api.Event{Sequence: int64(i), At: at.Add(time.Duration(i) * time.Second), Type: api.HappenedConditionChanged, NodeID: n.ID, VnfInstanceID: n.VnfInstanceID,
			Reason: api.ReasonUnreachable, Message: n.Status.Conditions[0].Message}
	}
	b := supportbundle.New(at)
	supportbundle.Items(b, "nodes.jsonl", "nodes", nodes, supportbundle.MostItems)
	supportbundle.Items(b, "events.jsonl", "events", events, len(events))
	size, files := packed(t, b)
	t.Logf("2000 nodes: %d bytes, and 10000 events: %d bytes; together %d bytes as a tar.gz", len(files["nodes.jsonl"]), len(files["events.jsonl"]), size)
	if size > 2<<20 || strings.Contains(files[supportbundle.Index], "the first") {
		t.Errorf("%d bytes:\n%s", size, files[supportbundle.Index])
	}
}
