package lab

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

const page = 4096

// writeLog is a log with these entries, as QEMU writes it; the data of each are its
// ordinal number.
func writeLog(t *testing.T, entries ...logged) string {
	t.Helper()
	var log bytes.Buffer
	word := func(v uint64) { _ = binary.Write(&log, binary.LittleEndian, v) }
	pad := func() { log.Write(make([]byte, (logSector-log.Len()%logSector)%logSector)) }
	word(logMagic)
	word(1)
	word(uint64(len(entries)))
	word(logSector)
	for i, e := range entries {
		pad()
		for _, v := range []uint64{uint64(e.at / logSector), uint64(e.length / logSector), e.flags, 0} {
			word(v)
		}
		if e.flags&logDiscard == 0 {
			pad()
			log.Write(bytes.Repeat([]byte{byte(i + 1)}, int(e.length)))
		}
	}
	pad()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// offset is where the log of these entries ends.
func offset(entries []logged) int64 {
	at := int64(logSector)
	for _, e := range entries {
		at += logSector
		if e.flags&logDiscard == 0 {
			at += e.length
		}
	}
	return at
}

// lose lets the power fail on a disk of 40 pages, when the log has so many entries, and returns the first byte of each
// page that was left, and the disk's log after it.
func lose(t *testing.T, seed uint64, cut int, entries ...logged) (pages []byte, d Disk, lost, cached int64) {
	t.Helper()
	dir := t.TempDir()
	d = Disk{VolumeID: "volume", Path: filepath.Join(dir, "disk"), WriteLog: writeLog(t, entries...)}
	before := filepath.Join(dir, "before")
	for _, path := range []string{before, d.Path} {
		if err := os.WriteFile(path, make([]byte, 40*page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(d.WriteLog)
	if err != nil {
		t.Fatal(err)
	}
	// The head in it is an old one, as it may be.
	if err := os.WriteFile(d.cutFile(), append(make([]byte, logSector), content[logSector:offset(entries[:cut])]...), 0o600); err != nil {
		t.Fatal(err)
	}
	lost, cached, err = d.LoseCache(t.Context(), before, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(d.Path); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(content); at += page {
		pages = append(pages, content[at])
	}
	return pages, d, lost, cached
}

func TestOnlyWhatWasNotFlushedIsLost(t *testing.T) {
	entries := []logged{
		{at: 0, length: 2 * page},
		{at: page, length: page}, // once more
		{flags: logDiscard, at: 0, length: 40 * page},
		{flags: logFlush},
		{flags: logFUA, at: 2 * page, length: page},
		{at: 3 * page, length: 32 * page},
		// These are after the cut.
		{at: 36 * page, length: logSector},
		{flags: logFlush},
		{at: 37 * page, length: page},
	}
	fates := map[byte]bool{}
	for seed := range uint64(20) {
		pages, d, lost, cached := lose(t, seed, 6, entries...)
		if !bytes.Equal(pages[:3], []byte{1, 2, 5}) {
			t.Fatalf("what was flushed is %v", pages[:3])
		}
		if cached != 32*page+logSector {
			t.Errorf("%d bytes were in the cache", cached)
		}
		gone := int64(0)
		for _, b := range pages[3:35] {
			fates[b] = true
			if b == 0 {
				gone += page
			}
		}
		if pages[36] == 0 {
			gone += logSector
		}
		if pages[37] != 0 {
			t.Error("a write is there that came after a flush that had no effect")
		}
		if lost != gone {
			t.Errorf("%d bytes are lost, it says %d", gone, lost)
		}
		if writes, err := d.Writes(); writes != 0 || err != nil {
			t.Errorf("after it the log has %d entries, %v", writes, err)
		}
	}
	if !fates[0] || !fates[6] || len(fates) != 2 {
		t.Errorf("pages that were not flushed came to %v, want some lost and some kept", fates)
	}
}

func TestAWriteLogOfAnotherKindIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, bytes.Repeat([]byte{1}, logSector), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := (Disk{WriteLog: path}).Writes(); err == nil {
		t.Errorf("it has %d entries", n)
	}
}
