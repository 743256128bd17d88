package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// What of bbolt's file format (version 2) is needed to walk through a file without
// bbolt, which panics, or dies of a signal, on a page that is not what it expects.
// Numbers are in the machine's own order.
const (
	pageHeader   = 16 // id 8, flags 2, count 2, overflow 4
	pageElement  = 16 // of a branch: pos 4, ksize 4, page 8; of a leaf: flags 4, pos 4, ksize 4, vsize 4
	bucketHeader = 16 // root page 8, sequence 8
	metaBytes    = 64 // of which the last 8 are the sum of the others

	branchPage, leafPage, freelistPage = 0x01, 0x02, 0x10

	boltMagic, boltVersion = 0xED0CDAED, 2
)

var native = binary.NativeEndian

// header is one of the two pages at the start that say where everything is.
type header struct {
	pageSize                  int64
	root, freelist, end, txid uint64
}

// readHeader reads the header whose page starts at the offset; false if none is.
func readHeader(file io.ReaderAt, offset int64) (h header, ok bool) {
	b := make([]byte, metaBytes)
	if _, err := file.ReadAt(b, offset+pageHeader); err != nil {
		return h, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaBytes-8])
	if native.Uint32(b) != boltMagic || native.Uint32(b[4:]) != boltVersion || native.Uint64(b[metaBytes-8:]) != sum.Sum64() {
		return h, false
	}
	return header{pageSize: int64(native.Uint32(b[8:])), root: native.Uint64(b[16:]), freelist: native.Uint64(b[32:]),
		end: native.Uint64(b[40:]), txid: native.Uint64(b[48:])}, true
}

// walk is a walk through all pages that are in use.
type walk struct {
	file     io.ReaderAt
	pageSize int64
	end      uint64
	// seen is the pages that something names.
	seen map[uint64]bool
}

// page reads a page, of one of the kinds, with what overflows from it. No page is
// read twice.
func (w *walk) page(id uint64, want ...uint16) (body, error) {
	var head [pageHeader]byte
	if id < 2 || id >= w.end {
		return body{}, fmt.Errorf("a page %d is named and there are %d", id, w.end)
	}
	if _, err := w.file.ReadAt(head[:], int64(id)*w.pageSize); err != nil {
		return body{}, fmt.Errorf("reading page %d: %w", id, err)
	}
	kind, more := native.Uint16(head[8:]), uint64(native.Uint32(head[12:]))
	if native.Uint64(head[:]) != id || !slices.Contains(want, kind) || more >= w.end-id {
		return body{}, fmt.Errorf("page %d has another kind than expected", id)
	}
	for each := id; each <= id+more; each++ {
		if w.seen[each] {
			return body{}, fmt.Errorf("page %d is used twice", each)
		}
		w.seen[each] = true
	}
	data := make([]byte, int64(more+1)*w.pageSize)
	if _, err := w.file.ReadAt(data, int64(id)*w.pageSize); err != nil {
		return body{}, fmt.Errorf("reading page %d: %w", id, err)
	}
	return body{id: id, data: data}, nil
}

// tree walks through the pages under id, whose keys are from least on and below
// most (nil: no bound), in ascending order.
func (w *walk) tree(id uint64, least, most []byte) error {
	p, err := w.page(id, branchPage, leafPage)
	if err != nil {
		return err
	}
	items, _, err := p.items()
	if err != nil {
		return err
	}
	for i, item := range items {
		if bytes.Compare(item.key, least) < 0 || most != nil && bytes.Compare(item.key, most) >= 0 || i > 0 && bytes.Compare(items[i-1].key, item.key) >= 0 {
			return fmt.Errorf("the keys of page %d are out of order", id)
		}
		switch {
		case p.kind() == branchPage:
			next := most
			if i+1 < len(items) {
				next = items[i+1].key
			}
			err = w.tree(item.page, item.key, next)
		case item.bucket:
			err = w.bucket(id, item.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket walks through a bucket, which lies in its value where it is small.
func (w *walk) bucket(in uint64, value []byte) error {
	if len(value) < bucketHeader {
		return fmt.Errorf("page %d holds a bucket that is cut off", in)
	}
	if root := native.Uint64(value); root != 0 {
		return w.tree(root, nil, nil)
	}
	p := body{id: in, data: value[bucketHeader:]}
	if len(p.data) < pageHeader || p.kind() != leafPage {
		return fmt.Errorf("page %d holds a bucket that is none", in)
	}
	items, used, err := p.items()
	if err != nil {
		return err
	}
	if used != len(p.data) {
		return fmt.Errorf("page %d holds a bucket of another length", in)
	}
	for i, item := range items {
		if item.bucket || i > 0 && bytes.Compare(items[i-1].key, item.key) >= 0 {
			return fmt.Errorf("page %d holds a bucket whose keys are out of order", in)
		}
	}
	return nil
}

// free walks through the list of free pages.
func (w *walk) free(id uint64) error {
	p, err := w.page(id, freelistPage)
	if err != nil {
		return err
	}
	list, count := p.data[pageHeader:], uint64(native.Uint16(p.data[10:]))
	if count == 0xFFFF { // more than fit there: the first entry is the count
		count, list = native.Uint64(list), list[8:]
	}
	if count > uint64(len(list)/8) {
		return fmt.Errorf("page %d lists %d free pages, which it cannot hold", id, count)
	}
	for i := range count {
		page := native.Uint64(list[i*8:])
		if page < 2 || page >= w.end || w.seen[page] {
			return fmt.Errorf("page %d lists page %d as free, which is in use", id, page)
		}
		w.seen[page] = true
	}
	return nil
}

// body is a page as it was read.
type body struct {
	id   uint64
	data []byte
}

func (p body) kind() uint16 { return native.Uint16(p.data[8:]) }

// item is an element of a branch, which names a page, or of a leaf.
type item struct {
	key, value []byte
	page       uint64
	bucket     bool
}

// items reads the elements. bbolt writes their keys and values one behind another
// without a gap, and nothing into a page without any, so that a count or a length
// that was changed shows. used is where they end.
func (p body) items() (list []item, used int, err error) {
	count := int(native.Uint16(p.data[10:]))
	if count == 0 && !bytes.Equal(p.data[pageHeader:], make([]byte, len(p.data)-pageHeader)) {
		return nil, 0, fmt.Errorf("page %d is said to be empty and is not", p.id)
	}
	used = pageHeader + count*pageElement
	for i := range count {
		at := pageHeader + i*pageElement
		if at+pageElement > len(p.data) {
			return nil, 0, fmt.Errorf("page %d has more elements than it can hold", p.id)
		}
		e := p.data[at:]
		var pos, ksize, vsize, flags uint32
		var next item
		if p.kind() == branchPage {
			pos, ksize, next.page = native.Uint32(e), native.Uint32(e[4:]), native.Uint64(e[8:])
		} else {
			flags, pos, ksize, vsize = native.Uint32(e), native.Uint32(e[4:]), native.Uint32(e[8:]), native.Uint32(e[12:])
		}
		key := used
		value := key + int(ksize)
		used = value + int(vsize)
		if at+int(pos) != key || used > len(p.data) || flags > 1 {
			return nil, 0, fmt.Errorf("element %d of page %d is not where it should be", i, p.id)
		}
		next.key, next.value, next.bucket = p.data[key:value], p.data[value:used], flags == 1
		list = append(list, next)
	}
	return list, used, nil
}
