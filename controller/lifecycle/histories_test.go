package lifecycle_test

// The recorded histories are the measure of every change that is to change nothing:
// testdata/histories.gz holds, for each step of many random histories, the documents,
// records and wakes that resulted, and TestRecordedHistories wants the same again.
//
// A history is what TestNoOrderOfEventsBreaksAnOperation does with fixed random numbers.
// What is recorded is what others can see: the methods of the life cycle, the collections
// of the store, the keys of the hub. So it holds however the inside is cut. Only what
// differs from the step before is kept. What is random is named in the order in which it
// turns up, what is sealed is opened, and the clock is the test's.
//
// A mismatch prints the step, what differs there, and everything that was drawn up to it.
// If the difference is wanted, `go test ./controller/lifecycle -run TestRecordedHistories
// -update` records anew; the commit says why. A new event of a history, or another version
// of the library that draws, makes other histories: that is a commit of its own.

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/controller/notify"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/tx"
	"github.com/nodehitch/nodehitch/shared/api"
)

var update = flag.Bool("update", false, "record the histories anew")

const (
	recordedIn        = "testdata/histories.gz"
	recordedHistories = 150
	// What stands before each history and each step of the file. No line of a record
	// begins like this.
	historyMark = "== history\n"
	stepMark    = "-- step "
	// What stands behind the name of a part that is gone.
	isGone = " is gone\n"
)

func TestRecordedHistories(t *testing.T) {
	recordedLength(t)
	recorded := make([][]string, recordedHistories)
	if !*update {
		recorded = readHistories(t)
	}
	t.Run("history", func(t *testing.T) {
		for i, wanted := range recorded {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				defer func() {
					if t.Skipped() { // by the library
						t.Error("the random numbers do not last to the end of the history")
					}
				}()
				r := &recording{wanted: wanted, compares: !*update}
				rapid.MakeFuzz(r.make)(t, randomNumbers(i))
				recorded[i] = r.found
			})
		}
	})
	if i := slices.IndexFunc(recorded, func(steps []string) bool { return steps == nil }); i >= 0 && !t.Failed() {
		t.Fatalf("history %d was not made: -update makes all or none", i)
	}
	if *update && !t.Failed() {
		writeHistories(t, recorded)
	}
}

// How much of the past is kept decides nothing: with all that need not be kept deleted, the
// same histories come to the same documents, records and wakes.
func TestRecordedHistoriesWithoutThePast(t *testing.T) {
	recordedLength(t)
	var forgotten atomic.Int64
	t.Run("history", func(t *testing.T) {
		for i, wanted := range readHistories(t) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				r := &recording{wanted: wanted, compares: true, less: tx.Retention{Last: 1, Key: tx.Kept.Key}}
				rapid.MakeFuzz(r.make)(t, randomNumbers(i))
				forgotten.Add(int64(len(r.forgotten)))
			})
		}
	})
	t.Logf("%d operations and versions were deleted", forgotten.Load())
	if forgotten.Load() == 0 {
		t.Error("nothing was deleted")
	}
}

// recordedLength gives histories the length of those on record, until the test ends.
func recordedLength(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short makes shorter histories than those on record")
	}
	steps := flag.Lookup("rapid.steps")
	was := steps.Value.String()
	t.Cleanup(func() { _ = steps.Value.Set(was) })
	if err := steps.Value.Set("30"); err != nil {
		t.Fatal(err)
	}
}

// randomNumbers are the draws of a history: more than any needs.
func randomNumbers(history int) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(history))
	numbers := make([]byte, 1<<17)
	_, _ = rand.NewChaCha8(seed).Read(numbers)
	return numbers
}

func readHistories(t *testing.T) (histories [][]string) {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(recordedIn))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, history := range strings.Split(string(text), historyMark)[1:] {
		histories = append(histories, strings.Split(history, stepMark)[1:])
	}
	if len(histories) != recordedHistories {
		t.Fatalf("%s has %d histories, want %d", recordedIn, len(histories), recordedHistories)
	}
	return histories
}

func writeHistories(t *testing.T, histories [][]string) {
	t.Helper()
	var text bytes.Buffer
	z, err := gzip.NewWriterLevel(&text, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	for _, steps := range histories {
		_, _ = io.WriteString(z, historyMark+stepMark+strings.Join(steps, stepMark))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.FromSlash(recordedIn), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recording is one history while it is made.
type recording struct {
	*history
	wanted, found []string
	compares      bool
	// less is how much of the past is kept, if that is less than on record; forgotten
	// are the operations and versions that went for it.
	less      tx.Retention
	forgotten map[string]bool
	// event is what the present step does: several if one was not possible.
	event []string
	// before is what there was after the last step, by the name of each part.
	before map[string]string
	// names are those of what is random: pairs of a value and its name.
	names   []string
	named   map[string]bool
	counted map[string]int
	// forms are the canonical forms by the text of what they were made of.
	forms map[string]string
	// watched are the keys of the hub.
	watched map[string]<-chan struct{}
	stop    []func()
}

func (r *recording) make(t *rapid.T) {
	dir, err := os.MkdirTemp("/dev/shm", "nodehitch-history") // what a disk costs is nothing to these
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.history = newHistory(t, dir, noMembers)
	if r.less != (tx.Retention{}) {
		r.forgotten = map[string]bool{}
		r.Keep(r.less)
	}
	r.event, r.named, r.counted, r.forms = []string{"begin"}, map[string]bool{}, map[string]int{}, map[string]string{}
	events := r.events()
	for name, happens := range events {
		events[name] = func(t *rapid.T) {
			r.event = append(r.event, name)
			happens(t)
		}
	}
	r.after, events[""] = r.step, r.step
	t.Repeat(events)
	if r.compares && len(r.found) < len(r.wanted) {
		t.Fatalf("the history ended after %d steps of %d", len(r.found), len(r.wanted))
	}
}

// step records what the last step has changed, and compares it.
func (r *recording) step(t *rapid.T) {
	woken := r.woken()
	now := r.parts()
	var text strings.Builder
	event := cmp.Or(strings.Join(r.event, ", nothing; "), "what was overtaken")
	fmt.Fprintf(&text, "%d: %s\nwoken: %s\n", len(r.found), event, strings.Join(woken, " "))
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if r.before[name] != now[name] {
			fmt.Fprintf(&text, "%s: %s\n", name, now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.before)) {
		if _, ok := now[name]; !ok {
			text.WriteString(name + isGone)
		}
	}
	n := len(r.found)
	r.found = append(r.found, text.String())
	if r.forgotten != nil && n < len(r.wanted) {
		r.wanted[n], r.found[n] = r.withoutPast(r.wanted[n], r.found[n], now)
	}
	r.before, r.event = now, nil
	r.watch()
	if !r.compares {
		return
	}
	if n == len(r.wanted) {
		t.Fatalf("the history goes on after its %d steps: %s", n, text.String())
	}
	if r.wanted[n] != r.found[n] {
		t.Fatalf("step %s (-recorded +found):\n%s", strings.SplitN(r.found[n], "\n", 2)[0],
			diff.Diff(r.wanted[n], r.found[n]))
	}
}

// withoutPast is what a step has changed, on record and as it was found, but for the
// operations and versions that went with it: they may have changed before. One that went
// earlier changes no more.
func (r *recording) withoutPast(wanted, found string, now map[string]string) (string, string) {
	went := map[string]bool{}
	kept := func(step string) string {
		var text strings.Builder
		drop := false
		for line := range strings.Lines(step) {
			if !strings.ContainsAny(line[:1], " }]") { // a part begins
				name, _, _ := strings.Cut(line, ": ")
				name, isGone := strings.CutSuffix(name, isGone)
				_, isThere := now[name]
				isPast := strings.HasPrefix(name, "operation ") || strings.HasPrefix(name, "desired ")
				if drop = isPast && !isThere && (isGone || !r.forgotten[name]); drop {
					went[name] = true
				}
			}
			if !drop {
				text.WriteString(line)
			}
		}
		return text.String()
	}
	wanted, found = kept(wanted), kept(found)
	maps.Copy(r.forgotten, went)
	return wanted, found
}

// watch waits for every key that a change can have.
func (r *recording) watch() {
	for _, stop := range r.stop {
		stop()
	}
	keys := []string{notify.Instances, notify.Nodes, notify.Operations, lifecycletest.InstanceID, lifecycletest.Volume, lifecycletest.UUID(5, 1)}
	for _, s := range pool {
		keys = append(keys, s.ID)
	}
	for i := range 100 { // more than a history has
		keys = append(keys, api.OperationID(lifecycletest.InstanceID, int64(i+1)))
	}
	r.watched, r.stop = map[string]<-chan struct{}{}, nil
	for _, key := range keys {
		changed, stop := r.Hub.Watch(key)
		r.watched[key], r.stop = changed, append(r.stop, stop)
	}
}

// woken are the keys that were changed since, in order.
func (r *recording) woken() (keys []string) {
	for key, changed := range r.watched {
		select {
		case <-changed:
			keys = append(keys, key)
		default:
		}
	}
	slices.Sort(keys)
	return keys
}

// parts is everything that there is, by name.
func (r *recording) parts() map[string]string {
	all := map[string]any{"epoch": r.Store.Epoch()}
	r.Must(r.Store.View(func(tx *store.Tx) error {
		r.collect(all, tx)
		return nil
	}))
	shown, err := r.Lifecycle.Nodes.ListNodes(r.Ctx, lifecycletest.InstanceID, true)
	r.Must(err)
	for _, n := range shown {
		all["shown node "+n.ID] = []any{n.State, n.Ready, n.LastSeenAt}
		config, digest, err := r.Lifecycle.Nodes.NodeConfig(r.Ctx, n.ID)
		r.Must(err)
		all["document "+n.ID+" "+digest] = config
	}
	texts := make(map[string]string, len(all))
	named := strings.NewReplacer(r.names...)
	for name, part := range all {
		texts[name] = named.Replace(r.canonical(part))
	}
	return texts
}

// collect is every record, what is sealed opened.
func (r *recording) collect(all map[string]any, tx *store.Tx) {
	for _, i := range every(r, tx.Instances()) {
		all["instance "+i.ID] = i
		r.name("join token", i.JoinTokenID)
		r.name("MAC of a join token", base64.StdEncoding.EncodeToString(i.JoinTokenMAC))
	}
	for _, d := range every(r, tx.Desired()) {
		all[fmt.Sprintf("desired %s %d", d.InstanceID, d.Version)] = struct {
			store.Desired
			AdditionalParams  json.RawMessage `json:"additionalParams"`
			VIMConnectionInfo json.RawMessage `json:"vimConnectionInfo"`
		}{d, r.opened(d.AdditionalParams), r.opened(d.VIMConnectionInfo)}
	}
	for _, n := range every(r, tx.Nodes()) {
		all["node "+n.ID] = struct {
			store.Node
			Config json.RawMessage `json:"config"`
		}{n, r.opened(n.Config)}
		if n.Identity != nil {
			r.name("serial", n.Identity.PreviousSerial)
			r.name("serial", n.Identity.Serial)
			r.name("key", n.Identity.KeyHash)
		}
	}
	for _, v := range every(r, tx.Volumes()) {
		all["volume "+v.ID] = v
		r.name("permit", v.Permit.ID)
	}
	for _, o := range every(r, tx.Operations()) {
		all["operation "+o.ID] = o
	}
	for _, f := range every(r, tx.Files()) {
		all["file "+f.InstanceID+" "+f.Path] = f
		r.name("parameters", f.ValidatedFor)
	}
}

func every[T any](r *recording, c store.Collection[T]) []T {
	list, err := c.All()
	r.Must(err)
	return list
}

func (r *recording) opened(s store.Sealed) json.RawMessage {
	text, err := r.Store.Unseal(s)
	r.Must(err)
	if text == nil {
		return json.RawMessage("null")
	}
	return text
}

// name gives a random value a name of its kind, once.
func (r *recording) name(kind, value string) {
	if value == "" || r.named[value] {
		return
	}
	r.named[value] = true
	r.counted[kind]++
	r.names = append(r.names, value, fmt.Sprintf("<%s %d>", kind, r.counted[kind]))
}

// canonical is the JSON form, a member a line, in the order of their names.
func (r *recording) canonical(part any) string {
	text, err := json.Marshal(part)
	r.Must(err)
	if form, known := r.forms[string(text)]; known {
		return form
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	r.Must(decoder.Decode(&plain))
	form, err := json.MarshalIndent(plain, "", " ")
	r.Must(err)
	r.forms[string(text)] = string(form)
	return string(form)
}
