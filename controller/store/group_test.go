package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/nodehitch/nodehitch/shared/api"
)

// commits counts the commits that the file has seen.
func commits(t rapid.TB, s *Store) (n int) {
	t.Helper()
	must(t, raw(s).View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }))
	return n
}

// updates runs them so that they share a commit, and returns what each returned or
// panicked with.
func updates(t rapid.TB, s *Store, fns ...func(*Tx) error) []error {
	t.Helper()
	return together(t, s.Update, &s.updates, fns...)
}

func putNode(id string) func(*Tx) error {
	return func(tx *Tx) error { return tx.Nodes().Put(id, Node{ID: id}) }
}

func nodeIDs(t *testing.T, s *Store) []string {
	t.Helper()
	ids := []string{}
	view(t, s, func(tx *Tx) error {
		all, err := tx.Nodes().All()
		for _, n := range all {
			ids = append(ids, n.ID)
		}
		return err
	})
	return ids
}

func TestUpdatesThatComeTogetherAreOneCommit(t *testing.T) {
	s := newPlace(t).open(t)
	before := commits(t, s)
	must(t, updates(t, s, putNode("n1"), putNode("n2"), putNode("n3"))...)
	if n := commits(t, s) - before; n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
	must(t, s.Update(putNode("n4")), s.Update(putNode("n5")))
	if n := commits(t, s) - before; n != 3 {
		t.Errorf("%d commits, want 3: one of several updates, and one each of two that were alone", n)
	}
	if diff := cmp.Diff([]string{"n1", "n2", "n3", "n4", "n5"}, nodeIDs(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestAnUpdateThatChangesNothingCostsNoCommit(t *testing.T) {
	s := newPlace(t).open(t)
	update(t, s, putNode("n1"))
	before := commits(t, s)
	boom := errors.New("boom")
	told := 0
	for name, fn := range map[string]func(*Tx) error{
		"reads":           func(tx *Tx) error { _, _, err := tx.Nodes().Get("n1"); return err },
		"writes the same": putNode("n1"),
		"deletes nothing": func(tx *Tx) error { return tx.Nodes().Delete("n2") },
		"fails":           func(tx *Tx) error { return errors.Join(putNode("n2")(tx), boom) },
	} {
		err := s.Update(func(tx *Tx) error { tx.OnCommit(func() { told++ }); return fn(tx) })
		if errors.Is(err, boom) != (name == "fails") {
			t.Errorf("one that %s: %v", name, err)
		}
		if n := commits(t, s) - before; n != 0 {
			t.Errorf("one that %s cost %d commits", name, n)
		}
	}
	if told != 3 {
		t.Errorf("%d were told that all is on disk, want the 3 that did not fail", told)
	}
	// Beside one that writes, it is that one's commit.
	must(t, updates(t, s, func(*Tx) error { return nil }, putNode("n2"), putNode("n2"))...)
	if n := commits(t, s) - before; n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
}

// What runs after the commit runs in its order, finds the change on disk, and may
// itself write.
func TestOnCommitRunsAfterTheSharedCommit(t *testing.T) {
	s := newPlace(t).open(t)
	var told []string
	must(t, updates(t, s, func(tx *Tx) error {
		for _, word := range []string{"first", "second"} {
			tx.OnCommit(func() { told = append(told, word+fmt.Sprint(slices.Contains(nodeIDs(t, s), "n1"))) })
		}
		tx.OnCommit(func() {
			if err := s.Update(putNode("n3")); err != nil {
				t.Error(err)
			}
		})
		return putNode("n1")(tx)
	}, func(tx *Tx) error {
		if len(told) != 0 {
			t.Error("told before the commit")
		}
		return putNode("n2")(tx)
	})...)
	if diff := cmp.Diff([]string{"firsttrue", "secondtrue"}, told); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"n1", "n2", "n3"}, nodeIDs(t, s)); diff != "" {
		t.Error(diff)
	}
}

// onDevice has the store write to a device in the place of its file, until the function
// that it returns is called.
func onDevice(t *testing.T, s *Store, device string) (back func()) {
	t.Helper()
	fd := -1
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, entry := range open {
		if path, _ := os.Readlink(filepath.Join("/proc/self/fd", entry.Name())); path == raw(s).Path() {
			_, err = fmt.Sscan(entry.Name(), &fd)
			must(t, err)
		}
	}
	kept, err := syscall.Dup(fd)
	must(t, err)
	d, err := os.OpenFile(device, os.O_RDWR, 0)
	must(t, err)
	must(t, syscall.Dup3(int(d.Fd()), fd, syscall.O_CLOEXEC), d.Close())
	return func() { must(t, syscall.Dup3(kept, fd, syscall.O_CLOEXEC), syscall.Close(kept)) }
}

// A disk that does not take the commit costs all that share it the same error, also
// those that wrote nothing and may have seen what the others wrote; and no others.
func TestACommitThatTheDiskDoesNotTake(t *testing.T) {
	for name, c := range map[string]struct {
		device         string // a real one: /dev/full has no room, and /dev/null cannot be synced
		says           string
		outcomeUnknown bool
	}{
		"no room":   {"/dev/full", "disk is full", false},
		"no answer": {"/dev/null", "stops", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPlace(t).open(t)
			update(t, s, putNode("n0")) // which makes room in the file for all that follows
			told := 0
			count := func(fn func(*Tx) error) func(*Tx) error {
				return func(tx *Tx) error { tx.OnCommit(func() { told++ }); return fn(tx) }
			}
			boom := errors.New("boom")
			back := onDevice(t, s, c.device)
			errs := updates(t, s,
				count(func(tx *Tx) error { return nil }),
				count(putNode("n1")), count(putNode("n2")),
				count(func(tx *Tx) error { return nil }),
				count(func(tx *Tx) error { return boom }))
			back()
			if errs[0] != nil {
				t.Errorf("one that saw nothing but what is on disk: %v", errs[0])
			}
			for _, err := range errs[1:] {
				var problem *api.Problem
				if !errors.As(err, &problem) || problem.Type != api.ProblemUnavailable || !strings.Contains(problem.Detail, c.says) {
					t.Errorf("error %v, want unavailable that says %q", err, c.says)
				}
				if errors.Is(err, ErrOutcomeUnknown) != c.outcomeUnknown || errors.Is(err, boom) {
					t.Errorf("error %v, outcome unknown: %v", err, c.outcomeUnknown)
				}
			}
			if told != 1 {
				t.Errorf("%d were told of a commit, want the one that needed none", told)
			}
			select {
			case <-s.Over():
				if !c.outcomeUnknown {
					t.Error("the outcome is unknown")
				}
			default:
				if c.outcomeUnknown {
					t.Error("the outcome is not unknown")
				}
			}
			ran := false
			err := s.Update(func(tx *Tx) error { ran = true; return putNode("n3")(tx) })
			if (err != nil) != c.outcomeUnknown || ran == c.outcomeUnknown {
				t.Errorf("the next change: %v, it ran: %v", err, ran)
			}
			want := []string{"n0", "n3"}
			if c.outcomeUnknown {
				want = want[:1]
			}
			if diff := cmp.Diff(want, nodeIDs(t, s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// spoil makes a page of the file one that bbolt cannot read.
func spoil(t *testing.T, s *Store, page uint64) {
	t.Helper()
	f, err := os.OpenFile(raw(s).Path(), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(make([]byte, pageHeader), int64(page)*int64(os.Getpagesize()))
	must(t, err, f.Close())
}

// leaves are the pages of the nodes' values, in order.
func leaves(t *testing.T, s *Store) (pages []uint64) {
	t.Helper()
	var root uint64
	must(t, raw(s).View(func(tx *bbolt.Tx) error { root = uint64(tx.Bucket([]byte(bucketNodes)).Root()); return nil }))
	size := os.Getpagesize()
	p := body{id: root, data: read(t, raw(s).Path())[int(root)*size:][:size]}
	if p.kind() == leafPage {
		return []uint64{root}
	}
	items, _, err := p.items()
	must(t, err)
	for _, i := range items {
		pages = append(pages, i.page)
	}
	return pages
}

// fill puts nodes of 1 KB, so that there are several pages of them.
func fill(t *testing.T, s *Store, count int) {
	t.Helper()
	update(t, s, func(tx *Tx) (err error) {
		for i := range count {
			id := fmt.Sprintf("n%02d", i)
			err = errors.Join(err, tx.Nodes().Put(id, Node{ID: id, Name: strings.Repeat("x", 1000)}))
		}
		return err
	})
}

func TestAPageThatCannotBeWrittenFailsOnlyWhoNeedsIt(t *testing.T) {
	s := newPlace(t).open(t)
	fill(t, s, 3)
	pages := leaves(t, s)
	if len(pages) != 1 {
		t.Fatalf("the nodes lie on the pages %v, want one", pages)
	}
	spoil(t, s, pages[0])
	putVolume := func(tx *Tx) error { return tx.Volumes().Put("v1", Volume{ID: "v1"}) }
	errs := updates(t, s, putVolume, putNode("n01"), func(tx *Tx) error { return tx.Nodes().Delete("n02") }, putVolume)
	must(t, errs[0], errs[3])
	wantError(t, errs[1], "nodes/n01", "damaged", "restore a backup")
	wantError(t, errs[2], "nodes/n02", "damaged", "restore a backup")
	view(t, s, func(tx *Tx) error {
		if _, found, err := tx.Volumes().Get("v1"); !found || err != nil {
			t.Errorf("found %v, %v", found, err)
		}
		return nil
	})
}

// A page that only the commit needs: bbolt joins the page that is nearly empty with the
// one beside it.
func TestACommitThatMeetsAPageThatCannotBeRead(t *testing.T) {
	s := newPlace(t).open(t)
	fill(t, s, 10)
	pages := leaves(t, s)
	if len(pages) < 3 {
		t.Fatalf("the nodes lie on the pages %v, want three at least", pages)
	}
	spoil(t, s, pages[1])
	errs := updates(t, s, func(tx *Tx) error {
		return errors.Join(tx.Nodes().Delete("n00"), tx.Nodes().Put("n01", Node{}))
	}, func(tx *Tx) error { return tx.Volumes().Put("v1", Volume{}) })
	for _, err := range errs {
		wantError(t, err, "stops", errPages.Error())
	}
	select {
	case <-s.Over():
	default:
		t.Error("the outcome is not unknown")
	}
	wantError(t, s.Update(putNode("n1")), "stops")
}
