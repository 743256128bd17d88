package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// tmpfs is what statfs(2) calls a file system in memory.
const tmpfs = 0x01021994

// Reports of nodes at the same time, by the store and by bbolt itself: its Update, which
// commits each alone, and its Batch, which gathers them. The three take turns within one
// run; ofUpdate and ofBatch are the store's transactions in a second by theirs.
func BenchmarkWritersAtOnce(b *testing.B) {
	dir := b.TempDir()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		b.Fatal(err)
	}
	if fs.Type == tmpfs {
		b.Skipf("%s is in memory: set TMPDIR to a directory on a disk", dir)
	}
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) { writersAtOnce(b, writers) })
	}
}

func writersAtOnce(b *testing.B, writers int) {
	s, err := Open(place{dir: filepath.Join(b.TempDir(), "controller")}.options())
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, s)
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, db)
	nodes := benchNodes(b, s, db)
	put := func(tx *bbolt.Tx, n int) error {
		bucket := tx.Bucket([]byte(bucketNodes))
		var node Node
		text, err := textOf(bucketNodes, nodes[n].ID, bucket.Get([]byte(nodes[n].ID)))
		if err == nil {
			err = json.Unmarshal(text, &node)
		}
		if err != nil {
			return err
		}
		node.Generation++
		if text, err = json.Marshal(node); err != nil {
			return err
		}
		return bucket.Put([]byte(node.ID), summed(bucketNodes, node.ID, text))
	}
	contenders := []func(n int) error{
		func(n int) error {
			return s.Update(func(tx *Tx) error {
				node, _, err := tx.Nodes().Get(nodes[n].ID)
				if err != nil {
					return err
				}
				node.Generation++
				return tx.Nodes().Put(node.ID, node)
			})
		},
		func(n int) error { return db.Update(func(tx *bbolt.Tx) error { return put(tx, n) }) },
		func(n int) error { return db.Batch(func(tx *bbolt.Tx) error { return put(tx, n) }) },
	}
	var took [3]time.Duration
	const each = 20 // transactions of a writer before it is another contender's turn
	transactions := 0
	for b.Loop() {
		for i, contender := range contenders {
			began := time.Now()
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					for k := range each {
						if err := contender((w*each + k) % len(nodes)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			took[i] += time.Since(began)
		}
		transactions += writers * each
	}
	b.ReportMetric(float64(transactions)/took[0].Seconds(), "tx/s")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ofUpdate")
	b.ReportMetric(took[2].Seconds()/took[0].Seconds(), "ofBatch")
}

// benchNodes are 2,000 nodes with documents of some KB, in both.
func benchNodes(b *testing.B, s *Store, db *bbolt.DB) (nodes []Node) {
	for i := range 2000 {
		nodes = append(nodes, Node{ID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), Config: bytes.Repeat([]byte{7}, 3000)})
	}
	err := s.Update(func(tx *Tx) error {
		for _, n := range nodes {
			if err := tx.Nodes().Put(n.ID, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	err = raw(s).View(func(from *bbolt.Tx) error {
		return db.Update(func(to *bbolt.Tx) error {
			bucket, err := to.CreateBucket([]byte(bucketNodes))
			if err != nil {
				return err
			}
			return from.Bucket([]byte(bucketNodes)).ForEach(bucket.Put)
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	return nodes
}
