package backup_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/nodehitch/nodehitch/controller/backup"
	"github.com/nodehitch/nodehitch/controller/store"
	"github.com/nodehitch/nodehitch/controller/store/etcd"
	"github.com/nodehitch/nodehitch/e2e/kube/etcdtest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const prefix = "/nodehitch"

// site is a world whose state is, or will be, in an etcd that takes little at once.
type site struct {
	*world
	endpoints []string
	// kill is after how many commits the command is killed, commits how many it has made.
	kill, commits int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{world: newWorld(t), endpoints: etcdtest.Open(t, 1, "--max-txn-ops=8").Endpoints(), kill: never}
	s.expect(servers...)
	s.must(s.Store.Update(func(tx *store.Tx) error {
		for i := range 12 { // each is changed by a new epoch, so that this takes several commits
			id := fmt.Sprintf("7f1c1d4e-8a5b-4c0e-9d1f-2a3b4c5d6e%02d", i)
			if err := tx.Nodes().Put(id, store.Node{ID: id, InstanceID: instance, MayReenroll: true}); err != nil {
				return err
			}
		}
		return nil
	}))
	return s
}

const never = 1 << 20

var errKilled = errors.New("killed")

// stopping is a term in which the controller is killed after so many commits.
type stopping struct {
	store.Term
	site *site
}

func (s *stopping) Commit(head []byte, changes map[string][]byte) error {
	if s.site.commits == s.site.kill {
		return errKilled
	}
	s.site.commits++
	return s.Term.Commit(head, changes)
}

// campaign becomes the leader.
func (s *site) campaign(ctx context.Context) (*store.Shared, error) {
	client := etcd.New(etcd.Options{Endpoints: s.endpoints, Prefix: prefix, Name: "test", TTL: 5 * time.Second})
	s.t.Cleanup(func() { _ = client.Close() })
	term, err := client.Campaign(ctx, nil)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = term.Close() })
	history, err := store.OpenHistory(filepath.Join(s.Config.DataDirectory, "etcd-seen.json"))
	s.commits = 0
	return &store.Shared{Term: &stopping{term, s}, History: history, Name: "etcd " + prefix}, err
}

func (s *site) key() store.KeySource { return store.KeySource{File: s.Config.SealKeyFile} }

// tryShared opens the state in etcd as a controller does.
func (s *site) tryShared() (*store.Store, error) {
	s.t.Helper()
	kill := s.kill
	s.kill = never
	defer func() { s.kill = kill }()
	shared, err := s.campaign(context.Background())
	s.must(err)
	return store.Open(store.Options{Shared: shared, Key: s.key(), Now: s.Clock.Now})
}

func (s *site) shared() *store.Store {
	s.t.Helper()
	opened, err := s.tryShared()
	s.must(err)
	return opened
}

func (s *site) client() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.endpoints, Logger: zap.NewNop()})
	s.must(err)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// wipe makes etcd empty.
func (s *site) wipe() {
	s.t.Helper()
	_, err := s.client().Delete(context.Background(), prefix+"/", clientv3.WithPrefix())
	s.must(err)
	s.must(os.RemoveAll(filepath.Join(s.Config.DataDirectory, "etcd-seen.json")))
}

func (s *site) migration() *backup.Migration {
	return &backup.Migration{DataDirectory: s.Config.DataDirectory, Key: s.key(), Shared: s.campaign, Now: s.Clock.Now}
}

func (s *site) restore(file string, replace bool) (backup.Restored, error) {
	s.t.Helper()
	s.Clock.Advance(time.Minute)
	r := backup.Restore{File: file, DataDirectory: s.Config.DataDirectory, Key: s.key(), Shared: s.campaign, Replace: replace, Version: "test", Now: s.Clock.Now}
	return r.Run(context.Background())
}

// lines are the records but the authority's, whose secrets seal differently each time.
func (s *site) lines(from *store.Store) string {
	s.t.Helper()
	var b bytes.Buffer
	s.must(from.View(func(tx *store.Tx) error { return tx.Export(&b) }))
	var kept strings.Builder
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, `{"bucket":"authority","key"`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// lost removes the store of a controller alone.
func (s *site) lost() {
	s.t.Helper()
	s.must(errors.Join(s.Store.Close(), os.Remove(s.StorePath())))
}

func pairsIn(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	if err := s.View(func(tx *store.Tx) (err error) { n, err = tx.Authority().Len(); return err }); err != nil {
		t.Fatal(err)
	}
	return n
}

// Wherever it is killed, at most one of the two states is accepted, and the next migration ends
// with all records in etcd.
func TestAMigrationIsKilledAtEachCommit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	want := s.lines(s.Store)
	path := s.StorePath()
	s.must(s.Store.Close())
	content, err := os.ReadFile(path)
	s.must(err)
	commits, between := never, 0
	for kill := 0; kill <= commits; kill++ {
		s.wipe()
		s.must(os.WriteFile(path, content, 0o600))
		s.kill = kill
		done, err := s.migration().Run(t.Context())
		if err == nil {
			commits = s.commits
		} else if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		alone, aloneErr := store.Open(store.Options{Path: path, Key: s.key(), Now: s.Clock.Now})
		if aloneErr == nil {
			s.must(alone.Close())
		}
		var moved *store.MovedError
		var unfinished *store.UnfinishedError
		sharedErr := error(nil)
		if kill > 0 { // a controller would make a new state in an empty etcd
			var in *store.Store
			if in, sharedErr = s.tryShared(); sharedErr == nil {
				s.must(in.Close())
			}
		}
		switch last := kill >= commits-1 && commits != never || errors.As(aloneErr, &moved); {
		case kill == 0, !last:
			if aloneErr != nil || kill > 0 && !errors.As(sharedErr, &unfinished) {
				t.Fatalf("killed after %d commits: alone %v, shared %v", kill, aloneErr, sharedErr)
			}
		case err != nil:
			between++
			if !errors.As(aloneErr, &moved) || !errors.As(sharedErr, &unfinished) {
				t.Fatalf("killed before the last commit: alone %v, shared %v", aloneErr, sharedErr)
			}
		case !errors.As(aloneErr, &moved) || sharedErr != nil || done.Already:
			t.Fatalf("migrated (%+v): alone %v, shared %v", done, aloneErr, sharedErr)
		}
		s.kill = never
		done, again := s.migration().Run(t.Context())
		if again != nil || done.Already != (err == nil) {
			t.Fatalf("killed after %d commits and run again: %+v, %v", kill, done, again)
		}
		in := s.shared()
		if diff := cmp.Diff(want, s.lines(in)); diff != "" || pairsIn(t, in) != 2 {
			t.Fatalf("%d pairs of the CA and %s", pairsIn(t, in), diff)
		}
		s.must(in.Close())
	}
	if between != 1 || commits < 4 {
		t.Errorf("it was killed %d times with the old store marked, in one of %d commits", between, commits)
	}
}

func TestAMigrationIntoAStateIsRefused(t *testing.T) {
	s := newSite(t)
	s.must(s.Store.Close())
	path := s.StorePath()
	content, err := os.ReadFile(path)
	s.must(err)
	_, err = s.migration().Run(t.Context())
	s.must(err)
	s.must(os.WriteFile(path, content, 0o600)) // an old copy, which nobody has marked
	if _, err := s.migration().Run(t.Context()); err == nil || !strings.Contains(err.Error(), "holds a state already") || s.commits != 0 {
		t.Errorf("%d commits, %v", s.commits, err)
	}
	s.Open()
}

// format1 is a backup in the format of before, and puts its seal key in place.
func (s *site) format1() string {
	s.t.Helper()
	packed, err := os.Open("testdata/format1.tar.gz")
	s.must(err)
	defer packed.Close()
	in, err := gzip.NewReader(packed)
	s.must(err)
	content, err := io.ReadAll(in)
	s.must(err)
	key, err := os.ReadFile("testdata/format1.key")
	s.must(err)
	file := filepath.Join(s.t.TempDir(), "format1.tar")
	s.must(errors.Join(os.WriteFile(file, content, 0o600), os.WriteFile(s.Config.SealKeyFile, key, 0o600)))
	return file
}

// A backup of either format is the same state in either engine.
func TestABackupOfEitherFormatInEitherEngine(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]func(*site) string{
		"format 1": (*site).format1,
		"format 2": func(s *site) string { return s.take() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			backedUp := file(s)
			s.lost()
			shared, err := s.restore(backedUp, false)
			s.must(err)
			in := s.shared()
			inEtcd := s.lines(in)
			if pairsIn(t, in) != 2 || shared.Instances != 1 || in.Origin() == nil {
				t.Errorf("it has %d pairs of the CA, and says %+v", pairsIn(t, in), shared)
			}
			s.must(in.Close())
			r := backup.Restore{File: backedUp, DataDirectory: s.Config.DataDirectory, Key: s.key(), Now: s.Clock.Now}
			alone, err := r.Run(t.Context())
			s.must(err)
			s.Open()
			if diff := cmp.Diff(inEtcd, s.lines(s.Store)); diff != "" || alone.Epoch != shared.Epoch || pairsIn(t, s.Store) != 0 {
				t.Errorf("epochs %d and %d, %d pairs, and -etcd +bbolt: %s", shared.Epoch, alone.Epoch, pairsIn(t, s.Store), diff)
			}
		})
	}
}

// A backup of a shared store has the CA; a controller alone gets it in its directory.
func TestABackupOfASharedStoreForAControllerAlone(t *testing.T) {
	s := newSite(t)
	pin := s.Authority.Pin()
	s.must(s.Store.Close())
	_, err := s.migration().Run(t.Context())
	s.must(err)
	in := s.shared()
	service := *s.Backups
	service.Store = in
	s.Backups = &service
	file := s.take()
	s.must(in.Close())
	s.must(errors.Join(os.Remove(s.StorePath()), os.RemoveAll(filepath.Join(s.Config.DataDirectory, "pki"))))
	r := backup.Restore{File: file, DataDirectory: s.Config.DataDirectory, Key: s.key(), Now: s.Clock.Now}
	done, err := r.Run(t.Context())
	s.must(err)
	s.Open()
	if s.Authority.Pin() != pin || pairsIn(t, s.Store) != 0 || done.NoRoot {
		t.Errorf("the pin is %s, want %s; %d pairs are in the store; %+v", s.Authority.Pin(), pin, pairsIn(t, s.Store), done)
	}
}

// revoked reports whether the token was revoked in the state in etcd.
func (s *site) revoked(id string) bool {
	s.t.Helper()
	in := s.shared()
	defer func() { s.must(in.Close()) }()
	var token store.Token
	s.must(in.View(func(tx *store.Tx) (err error) { token, _, err = tx.Tokens().Get(id); return err }))
	return token.RevokedAt != nil
}

// What the replaced state knew better is carried over, also if the restore was killed when it
// had written over half of it.
func TestARestoreIntoEtcdIsKilledAtEachCommit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	made, err := s.Tokens.Create(t.Context(), api.TokenRequest{Name: "t", Scope: api.ScopeOperator})
	s.must(err)
	file := s.take()
	path := s.StorePath()
	s.must(s.Store.Close())
	_, err = s.migration().Run(t.Context())
	s.must(err)
	in := s.shared()
	s.must(in.Update(func(tx *store.Tx) error {
		token, _, err := tx.Tokens().Get(made.Token.ID)
		now := s.Clock.Now()
		token.RevokedAt = &now
		return errors.Join(err, tx.Tokens().Put(token.ID, token))
	}))
	s.must(in.Close())
	other := s.client()
	found, err := other.Get(t.Context(), prefix+"/", clientv3.WithPrefix())
	s.must(err)
	if _, err := s.restore(file, false); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Fatalf("without --replace: %v", err)
	}
	commits, killed := never, 0
	for kill := 0; kill <= commits; kill++ {
		s.wipe()
		for _, kv := range found.Kvs {
			_, err := other.Put(t.Context(), string(kv.Key), string(kv.Value))
			s.must(err)
		}
		s.kill = kill
		_, err := s.restore(file, true)
		s.kill = never
		var unfinished *store.UnfinishedError
		switch {
		case err == nil:
			commits = s.commits
		case !errors.Is(err, errKilled):
			t.Fatal(err)
		case kill == 0:
			s.must(s.shared().Close())
		default:
			killed++
			if _, err := s.tryShared(); !errors.As(err, &unfinished) {
				t.Fatalf("killed after %d commits: a controller gets %v", kill, err)
			}
			if _, err := s.migration().Run(t.Context()); !errors.As(err, &unfinished) {
				t.Fatalf("killed after %d commits: a migration gets %v", kill, err)
			}
		}
		done, err := s.restore(file, true)
		s.must(err)
		if !s.revoked(made.Token.ID) || done.Unread != nil || done.Aside == "" {
			t.Fatalf("killed after %d commits and run again: %+v", kill, done)
		}
		if _, err := os.Stat(filepath.Join(done.Aside, "nodehitch.tar")); err != nil {
			t.Fatal(err)
		}
	}
	if killed < 2 {
		t.Errorf("it was killed between two commits %d times", killed)
	}
	// The old state of a controller alone is still where it was.
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// If the directory that a cut off restore has left is gone, the operator is told.
func TestWhatARestoreHasKeptIsGone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.take()
	s.must(s.Store.Close())
	_, err := s.migration().Run(t.Context())
	s.must(err)
	s.kill = 1
	if _, err := s.restore(file, true); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.kill = never
	kept, err := filepath.Glob(filepath.Join(s.Config.DataDirectory, "replaced-*"))
	s.must(err)
	s.must(os.RemoveAll(kept[0]))
	done, err := s.restore(file, false)
	s.must(err)
	if done.Unread == nil || !strings.Contains(done.Unread.Error(), "is not here") {
		t.Errorf("it says %v", done.Unread)
	}
}

// Restored beside a state of its own that was not moved, there would be two.
func TestARestoreIntoEtcdBesideAStore(t *testing.T) {
	s := newSite(t)
	file := s.take()
	s.must(s.Store.Close())
	if _, err := s.restore(file, true); err == nil || !strings.Contains(err.Error(), "migrate --to etcd") || s.commits != 0 {
		t.Errorf("%d commits, %v", s.commits, err)
	}
	s.Open()
}

func TestEtcdWasRestored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(s.Enrollment.Reenroll(t.Context(), servers[0]))
	s.must(s.Store.Close())
	_, err := s.migration().Run(t.Context())
	s.must(err)
	other := s.client()
	then, err := other.Get(t.Context(), prefix+"/", clientv3.WithPrefix())
	s.must(err)
	in := s.shared()
	epoch := in.Epoch()
	s.must(in.Update(func(tx *store.Tx) error { return tx.Nodes().Put("later", store.Node{ID: "later"}) }))
	s.must(in.Close())
	back := func() {
		_, err := other.Delete(t.Context(), prefix+"/", clientv3.WithPrefix())
		s.must(err)
		for _, kv := range then.Kvs {
			_, err := other.Put(t.Context(), string(kv.Key), string(kv.Value))
			s.must(err)
		}
	}
	command := &backup.WasRestored{DataDirectory: s.Config.DataDirectory, Key: s.key(), Shared: s.campaign, Now: s.Clock.Now}
	commits, killed := never, 0
	for kill := 0; kill <= commits; kill++ {
		back()
		var history *store.HistoryError
		if commits == never && kill == 0 {
			if _, err := s.tryShared(); !errors.As(err, &history) {
				t.Fatalf("before the command: %v", err)
			}
		}
		s.kill = kill
		_, err := command.Run(t.Context())
		s.kill = never
		var unfinished *store.UnfinishedError
		switch {
		case err == nil:
			commits = s.commits
		case !errors.Is(err, errKilled):
			t.Fatal(err)
		case kill > 0:
			killed++
			if _, err := s.tryShared(); !errors.As(err, &unfinished) {
				t.Fatalf("killed after %d commits: a controller gets %v", kill, err)
			}
		}
		done, err := command.Run(t.Context())
		s.must(err)
		in := s.shared()
		s.must(in.View(func(tx *store.Tx) error {
			node, found, err := tx.Nodes().Get(servers[0])
			i, _, instanceErr := tx.Instances().Get(instance)
			if !found || node.MayReenroll || i.LastSequence < done.Epoch || done.Epoch <= epoch {
				t.Errorf("killed after %d commits: %+v, %+v, %+v", kill, done, node, i)
			}
			return errors.Join(err, instanceErr)
		}))
		if said := in.Origin().String(); !strings.Contains(said, "restored with etcd") {
			t.Errorf("it says %q", said)
		}
		s.must(in.Close())
	}
	if killed < 2 {
		t.Errorf("it was killed between two commits %d times", killed)
	}
}

// Nothing is written from a backup that is not the controller's, or was changed.
func TestABackupThatIsNotWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.take()
	s.lost()
	whole, err := os.ReadFile(file)
	s.must(err)
	record := bytes.Index(whole, []byte(`{"bucket":"nodes","key"`))
	if record < 0 {
		t.Fatal("there is no record of a node")
	}
	for name, content := range map[string][]byte{
		"a record was changed":  bytes.Replace(whole, []byte(`"expected":true`), []byte(`"expected":null`), 1),
		"a line is no record":   bytes.Replace(whole, []byte(`{"bucket":"nodes","key"`), []byte(`{"bucket":"nodes","KAY"`), 1),
		"it ends in the middle": whole[:record],
	} {
		if bytes.Equal(content, whole) {
			t.Fatal(name)
		}
		s.must(os.WriteFile(file, content, 0o600))
		if _, err := s.restore(file, false); err == nil || !strings.Contains(err.Error(), "cut off, damaged or changed") || s.commits != 0 {
			t.Errorf("%s: %d commits, %v", name, s.commits, err)
		}
	}
	s.must(os.WriteFile(file, whole, 0o600))
	s.must(os.WriteFile(s.Config.SealKeyFile, bytes.Repeat([]byte("x"), 32), 0o600))
	if _, err := s.restore(file, false); err == nil || !strings.Contains(err.Error(), "it is sealed with the key") || s.commits != 0 {
		t.Errorf("with another key: %d commits, %v", s.commits, err)
	}
}

// What could not be read the first time is said the second time, too.
func TestAnUnreadableStateAndARestoreThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := s.take()
	s.must(s.Store.Close())
	_, err := s.migration().Run(t.Context())
	s.must(err)
	_, err = s.client().Put(t.Context(), prefix+"/v1/nodes/forged", "x")
	s.must(err)
	s.kill = 1
	if done, err := s.restore(file, true); !errors.Is(err, errKilled) || done.Unread == nil {
		t.Fatalf("it says %v, %v", done.Unread, err)
	}
	s.kill = never
	done, err := s.restore(file, true)
	s.must(err)
	if done.Unread == nil || done.Aside != "" {
		t.Errorf("the second time it says %+v", done)
	}
	s.must(s.shared().Close())
}
