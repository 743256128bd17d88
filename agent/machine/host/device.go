package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// device is an open block device.
//
// It is read with O_DIRECT: the page cache of a block device may contain zeros from before
// another host wrote to the volume, and the blank check must read the medium. While it is
// open, its number cannot be given to another disk. Commands get the open file itself
// (openDevice), so that they work on this disk or fail.
type device struct {
	f     *os.File
	disk  Disk
	disks *disks
	block int
}

func (d *disks) Open(disk Disk, claim bool) (Device, error) {
	// O_NONBLOCK: do not wait for an optical drive without a disc.
	flags := unix.O_RDONLY | unix.O_DIRECT | unix.O_CLOEXEC | unix.O_NONBLOCK
	if claim {
		flags |= unix.O_EXCL
	}
	fd, err := unix.Open(disk.Node, flags, 0)
	switch {
	case errors.Is(err, unix.EBUSY) && claim:
		return nil, &InUseError{Disk: disk}
	case err != nil:
		return nil, fmt.Errorf("opening %s (%s): %w", disk.Path, disk.Node, err)
	}
	v := &device{f: os.NewFile(uintptr(fd), disk.Node), disk: disk, disks: d, block: 512}
	if size, err := unix.IoctlGetUint32(fd, unix.BLKSSZGET); err == nil && size > 0 {
		v.block = int(size)
	}
	if err := v.Same(); err != nil {
		v.f.Close()
		return nil, err
	}
	return v, nil
}

func (v *device) Disk() Disk { return v.disk }

func (v *device) Block() int { return v.block }

func (v *device) Close() error { return v.f.Close() }

// ReadAt reads through a buffer with the alignment that O_DIRECT needs, unless p has it.
func (v *device) ReadAt(p []byte, off int64) (int, error) {
	if uintptr(unsafe.Pointer(unsafe.SliceData(p)))%alignment == 0 {
		return v.read(p, off)
	}
	aligned := Aligned(len(p))
	n, err := v.read(aligned, off)
	copy(p, aligned[:n])
	return n, err
}

func (v *device) read(p []byte, off int64) (int, error) {
	n, err := v.f.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %d bytes at %d of %s (%s): %w", len(p), off, v.disk.Path, v.disk.Node, err)
	}
	return n, err
}

// alignment suits every logical block size that Linux has for disks.
const alignment = 4096

// Aligned is a buffer that a Device can read into without copying.
func Aligned(n int) []byte {
	b := make([]byte, n+alignment)
	shift := (alignment - int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment)) % alignment
	return b[shift : shift+n : shift+n]
}

func (v *device) Same() error {
	fd := int(v.f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("inspecting %s: %w", v.disk.Path, err)
	}
	if n := number(st.Rdev); n != v.disk.Number {
		return &SwappedError{Disk: v.disk, Found: "opened the device " + n.String()}
	}
	if seq, errno := ask(fd, blkGetDiskSeq); errno == 0 && v.disk.Sequence != 0 && seq != v.disk.Sequence {
		return &SwappedError{Disk: v.disk, Found: fmt.Sprintf("opened the disk with sequence %d", seq)}
	}
	now, err := v.disks.at(v.disk.Path)
	switch {
	case err != nil:
		return &SwappedError{Disk: v.disk, Found: err.Error()}
	case now.Number != v.disk.Number || now.Size != v.disk.Size || now.Sequence != v.disk.Sequence:
		return &SwappedError{Disk: v.disk, Found: fmt.Sprintf("%s, %d bytes, sequence %d", now.Number, now.Size, now.Sequence)}
	}
	size, errno := ask(fd, unix.BLKGETSIZE64)
	if errno != 0 {
		return fmt.Errorf("reading the size of %s: %w", v.disk.Path, errno)
	}
	if int64(size) != v.disk.Size {
		return &SwappedError{Disk: v.disk, Found: fmt.Sprintf("the kernel now says %d bytes", size)}
	}
	return nil
}

// blkGetDiskSeq is BLKGETDISKSEQ of linux/fs.h, which x/sys does not name.
const blkGetDiskSeq = 0x80081280

// ask is an ioctl that answers with 64 bits.
func ask(fd int, request uintptr) (uint64, unix.Errno) {
	var answer uint64
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&answer)))
	return answer, errno
}

// flush writes out and drops the cache, so that the next read comes from the medium.
func (v *device) flush() error {
	if err := v.f.Sync(); err != nil {
		return fmt.Errorf("writing out %s: %w", v.disk.Path, err)
	}
	if err := unix.IoctlSetInt(int(v.f.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("emptying the cache of %s: %w", v.disk.Path, err)
	}
	return nil
}
