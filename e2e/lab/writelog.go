package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
)

// The format of a write log (Linux, Documentation/admin-guide/device-mapper/log-writes.rst):
// a head of one sector, then entries, each in a sector of its own and followed by its data.
const (
	logSector  = 512
	logMagic   = 0x6a736677736872
	logFlush   = 1 << 0
	logFUA     = 1 << 1
	logDiscard = 1 << 2

	// entryHead is what an entry begins with, in bytes.
	entryHead = 32
)

// logged is a write or flush that reached a disk.
type logged struct {
	flags      uint64
	at, length int64 // of the disk, in bytes
	head, data int64 // where it and its data are in the log
	// arrived says that the log had it when the power was cut.
	arrived bool
}

// Writes is how many writes and flushes the log has noted; 0 while it is empty.
func (d Disk) Writes() (int64, error) {
	f, err := os.Open(d.WriteLog)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return logHead(f)
}

func logHead(log io.ReaderAt) (entries int64, err error) {
	head := make([]byte, 28)
	switch _, err := log.ReadAt(head, 0); {
	case errors.Is(err, io.EOF):
		return 0, nil
	case err != nil:
		return 0, err
	}
	if bytes.Count(head, []byte{0}) == len(head) {
		return 0, nil // the first entry is written before the first head
	}
	if magic, size := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint32(head[24:]); magic != logMagic || size != logSector {
		return 0, fmt.Errorf("the write log begins with magic %#x and sectors of %d bytes", magic, size)
	}
	return int64(binary.LittleEndian.Uint64(head[16:])), nil
}

// cutFile is what the log held when the power was cut.
func (d Disk) cutFile() string { return d.WriteLog + ".cut" }

// noteCut keeps the log as it is. The number in its head would not do: QEMU writes the
// head anew after each entry, several at a time, and an older one may come last.
func (d Disk) noteCut(ctx context.Context) error {
	return Disk{VolumeID: d.VolumeID, Path: d.WriteLog}.Snapshot(ctx, d.cutFile())
}

// atCut says of each entry whether the log had it when the power was cut. One that it
// had may have been acknowledged; one that it had not was not.
func (d Disk) atCut(entries []logged, log io.ReaderAt) error {
	then, err := os.Open(d.cutFile())
	if err != nil {
		return fmt.Errorf("volume %s: the power of its machine was not cut: %w", d.VolumeID, err)
	}
	defer then.Close()
	for i := range entries {
		now, before := make([]byte, entryHead), make([]byte, entryHead)
		if _, err := log.ReadAt(now, entries[i].head); err != nil {
			return err
		}
		if _, err := then.ReadAt(before, entries[i].head); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		entries[i].arrived = bytes.Equal(now, before)
	}
	return nil
}

func readLog(log io.ReaderAt) ([]logged, error) {
	count, err := logHead(log)
	if err != nil {
		return nil, err
	}
	entries, at := make([]logged, 0, count), int64(logSector)
	for range count {
		b := make([]byte, entryHead)
		if _, err := log.ReadAt(b, at); err != nil {
			return nil, fmt.Errorf("reading the write log: %w", err)
		}
		word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
		e := logged{flags: uint64(word(2)), at: word(0) * logSector, length: word(1) * logSector, head: at, data: at + logSector}
		if e.flags == 0 && e.length == 0 {
			return nil, fmt.Errorf("the write log has nothing at %d, where entry %d of %d should be", at, len(entries), count)
		}
		at = e.data
		if e.flags&logDiscard == 0 {
			at += e.length
		}
		entries = append(entries, e)
	}
	if n, _ := log.ReadAt(make([]byte, 1), at); n > 0 {
		return nil, fmt.Errorf("the write log goes on after the %d entries that its head says", count)
	}
	return entries, nil
}

// LoseCache does to the disk of a machine whose power was cut what a volatile write
// cache does: of what was written after the last flush, pieces of 4 KiB get lost by
// chance, in no order. Before is the disk's Snapshot from before the machine
// started. The log is empty after it. It returns how many bytes were lost, and how
// many might have been.
func (d Disk) LoseCache(ctx context.Context, before string, chance *rand.Rand) (lost, cached int64, err error) {
	log, err := os.OpenFile(d.WriteLog, os.O_RDWR, 0)
	if err != nil {
		return 0, 0, err
	}
	defer log.Close()
	entries, err := readLog(log)
	if err != nil {
		return 0, 0, err
	}
	if err := d.atCut(entries, log); err != nil {
		return 0, 0, err
	}
	if err := (Disk{VolumeID: d.VolumeID, Path: before}).Snapshot(ctx, d.Path); err != nil {
		return 0, 0, err
	}
	disk, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	if err != nil {
		return 0, 0, err
	}
	defer disk.Close()
	lost, cached, err = replay(entries, log, disk, chance)
	if err != nil {
		return 0, 0, err
	}
	return lost, cached, errors.Join(log.Truncate(0), os.Remove(d.cutFile()))
}

// replay writes what has survived. What came after the cut was on its way when it
// came, and may have survived too; a flush had no effect any more. So nothing that
// followed one can be there: the guest, which ran on for a moment, counted on that
// flush, as a filesystem does that frees its journal after it has flushed the rest.
func replay(entries []logged, log io.ReaderAt, disk io.WriterAt, chance *rand.Rand) (lost, cached int64, err error) {
	flushed := 0
	for i, e := range entries {
		if e.arrived && e.flags&logFlush != 0 {
			flushed = i
		}
	}
	const piece = 4096
	odds := chance.Float64()
	buffer := make([]byte, piece)
	over := false
	for i, e := range entries {
		over = over || !e.arrived && e.flags&logFlush != 0
		if over && !e.arrived {
			continue
		}
		safe := i < flushed || e.arrived && e.flags&logFUA != 0
		for done := int64(0); done < e.length && e.flags&logDiscard == 0; done += piece {
			b := buffer[:min(piece, e.length-done)]
			if !safe {
				cached += int64(len(b))
				if chance.Float64() < odds {
					lost += int64(len(b))
					continue
				}
			}
			if _, err := log.ReadAt(b, e.data+done); err != nil {
				return 0, 0, fmt.Errorf("reading the write log: %w", err)
			}
			if _, err := disk.WriteAt(b, e.at+done); err != nil {
				return 0, 0, err
			}
		}
	}
	return lost, cached, nil
}
