package hosttest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/agent/machine/host"
)

// DiskState is an attached disk.
type DiskState struct {
	VolumeID string
	// Links are its names by id; Node its name in /dev.
	Links    []string
	Node     string
	Number   host.Number
	Size     int64
	Sequence uint64
	// Tags are what blkid finds, Signatures what wipefs finds.
	Tags       map[string]string
	Signatures []string
	Ambivalent bool
	// Files are in its filesystem; they must survive.
	Files []string
	// Inside are the directories in its filesystem, by path from its root.
	Inside map[string]*Inside
	// Bad are offsets that cannot be read.
	Bad        []int64
	Holders    []string
	Partitions []string
	Swap       bool
	// Claimed says that another program has it.
	Claimed bool
	// Read is how many bytes were read of it, ReadAlone how many of them by its claimant.
	Read, ReadAlone int64
	pages           map[int64][]byte
	// used: its filesystem has been mounted.
	used bool
	// miscounted: the journal changed the size of the filesystem when it was mounted, and
	// the kernel goes by the size before.
	miscounted bool
}

// Inside is a directory in a filesystem.
type Inside struct {
	host.Shared
	// Problem is why it cannot be entered.
	Problem string
}

// Disk is an attached disk that contains what the parts say, blank without any.
func Disk(volumeID string, size int64, parts ...func(*DiskState)) Part {
	return func(m *Machine) { m.Attach(NewDisk(volumeID, size, parts...)) }
}

// NewDisk is a disk that can be attached.
func NewDisk(volumeID string, size int64, parts ...func(*DiskState)) *DiskState {
	d := &DiskState{
		VolumeID: volumeID, Size: size, pages: map[int64][]byte{}, Tags: map[string]string{}, Inside: map[string]*Inside{},
		Links: []string{"/dev/disk/by-id/virtio-" + volumeID[:min(20, len(volumeID))]},
	}
	for _, part := range parts {
		part(d)
	}
	return d
}

// Attach plugs a disk in; the kernel gives it a new name and number.
func (m *Machine) Attach(d *DiskState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.numbers++
	d.Number = host.Number{Major: 252, Minor: m.numbers * 16}
	d.Sequence = uint64(100 + m.numbers)
	d.Node = fmt.Sprintf("/dev/vd%c", 'a'+m.numbers)
	m.Disks = append(m.Disks, d)
}

// Detach pulls a disk out; what is mounted from it stays in the mount table.
func (m *Machine) Detach(d *DiskState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Disks = slices.DeleteFunc(m.Disks, func(other *DiskState) bool { return other == d })
}

// Ext4 is a filesystem with this UUID that has been in use.
func Ext4(uuid string) func(*DiskState) {
	return func(d *DiskState) { d.makeExt4(uuid); d.setUsed() }
}

// Fresh is a filesystem that was never mounted.
func Fresh(uuid string) func(*DiskState) { return func(d *DiskState) { d.makeExt4(uuid) } }

// Signed is other content that blkid finds.
func Signed(kind string) func(*DiskState) {
	return func(d *DiskState) { d.Tags["TYPE"] = kind; d.Write(0, []byte(kind)) }
}

// Table is a partition table, with the partitions that the kernel found.
func Table(kind string, partitions ...string) func(*DiskState) {
	return func(d *DiskState) {
		d.Tags["PTTYPE"] = kind
		d.Partitions = partitions
		d.Write(512, []byte("EFI PART"))
	}
}

// Bytes at an offset, which no tool recognizes.
func Bytes(at int64, b ...byte) func(*DiskState) { return func(d *DiskState) { d.Write(at, b) } }

// Unreadable at an offset.
func Unreadable(at int64) func(*DiskState) {
	return func(d *DiskState) { d.Bad = append(d.Bad, at) }
}

// Kept is a file that must survive.
func Kept(name string) func(*DiskState) {
	return func(d *DiskState) { d.Files = append(d.Files, name) }
}

// With changes anything else.
func With(change func(*DiskState)) func(*DiskState) { return change }

const page = 4096

// Write puts bytes on the disk.
func (d *DiskState) Write(at int64, b []byte) {
	for i, c := range b {
		n := (at + int64(i)) / page
		if d.pages[n] == nil {
			d.pages[n] = make([]byte, page)
		}
		d.pages[n][(at+int64(i))%page] = c
	}
}

func (d *DiskState) makeExt4(text string) {
	d.pages, d.Tags = map[int64][]byte{}, map[string]string{"TYPE": "ext4", "UUID": text, "USAGE": "filesystem"}
	d.Signatures, d.Ambivalent, d.used, d.Files, d.Inside = nil, false, false, nil, map[string]*Inside{}
	sb := make([]byte, 1024)
	binary.LittleEndian.PutUint32(sb[0x18:], 2)
	binary.LittleEndian.PutUint16(sb[0x38:], 0xEF53)
	id := uuid.MustParse(text)
	copy(sb[0x68:], id[:])
	d.Write(1024, sb)
	d.setExt4Size(d.Size)
}

// Ext4Size is how many bytes its filesystem has.
func (d *DiskState) Ext4Size() int64 {
	return int64(binary.LittleEndian.Uint32(d.pages[0][1024+0x04:])) * 4096
}

func (d *DiskState) setExt4Size(size int64) {
	d.Write(1024+0x04, binary.LittleEndian.AppendUint32(nil, uint32(size/4096)))
}

func (d *DiskState) setUsed() {
	d.used = true
	d.Write(1024+0x34, []byte{d.pages[0][1024+0x34] + 1, 0})
	d.miscounted = d.pages[0][1024+0x60] == dirty
	d.setDirty(0)
}

// dirty is the bit of a filesystem whose journal has to be replayed. Here it is only set
// while the filesystem grows.
const dirty = 4

func (d *DiskState) setDirty(bit byte) { d.Write(1024+0x60, []byte{bit}) }

// HalfGrown is a filesystem whose growth was cut off together with its machine, on a disk
// of this size.
func HalfGrown(size int64) func(*DiskState) {
	return func(d *DiskState) {
		d.Size = size
		d.setExt4Size((d.Ext4Size() + size) / 2)
		d.setDirty(dirty)
	}
}

func (d *DiskState) disk(path string) host.Disk {
	return host.Disk{Path: path, Node: d.Node, Number: d.Number, Size: d.Size, Sequence: d.Sequence}
}

// On is the attached disk of a volume.
func (m *Machine) On(volumeID string) *DiskState {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.Disks, func(d *DiskState) bool { return d.VolumeID == volumeID })
	if i < 0 {
		return nil
	}
	return m.Disks[i]
}

type disks struct{ *Machine }

func (h disks) ByVolumeID(id string) ([]host.Disk, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []host.Disk
	for _, d := range h.Disks {
		if d.VolumeID == id && len(d.Links) > 0 {
			found = append(found, d.disk(d.Links[0]))
		}
	}
	return found, nil
}

func (h disks) All() ([]host.Disk, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []host.Disk
	for _, d := range h.Disks {
		all = append(all, d.disk(d.Node))
	}
	return all, nil
}

func (h disks) Use(disk host.Disk) (host.Use, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.byNumber(disk.Number)
	if d == nil {
		return host.Use{}, errors.New("no such device")
	}
	use := host.Use{Holders: d.Holders, Partitions: d.Partitions, Swap: d.Swap}
	for _, m := range h.MountTable {
		if m.Device == d.Number {
			use.Mounts = append(use.Mounts, m)
		}
	}
	return use, nil
}

func (m *Machine) byNumber(n host.Number) *DiskState {
	i := slices.IndexFunc(m.Disks, func(d *DiskState) bool { return d.Number == n })
	if i < 0 {
		return nil
	}
	return m.Disks[i]
}

func (h disks) Open(disk host.Disk, claim bool) (host.Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.byNumber(disk.Number)
	if d == nil {
		return nil, fmt.Errorf("opening %s: no such device or address", disk.Path)
	}
	mounted := slices.ContainsFunc(h.MountTable, func(m host.Mount) bool { return m.Device == d.Number })
	if claim && (d.Claimed || mounted || d.Swap || len(d.Holders) > 0) {
		return nil, &host.InUseError{Disk: disk}
	}
	return &device{h.Machine, d, disk, claim}, nil
}

type device struct {
	m     *Machine
	d     *DiskState
	disk  host.Disk
	alone bool // no other program can claim it
}

func (v *device) Disk() host.Disk { return v.disk }
func (v *device) Block() int      { return 512 }
func (v *device) Close() error    { return nil }

func (v *device) Same() error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if v.m.byNumber(v.disk.Number) != v.d {
		return &host.SwappedError{Disk: v.disk, Found: "nothing"}
	}
	if v.d.Size != v.disk.Size {
		return &host.SwappedError{Disk: v.disk, Found: fmt.Sprintf("%d bytes", v.d.Size)}
	}
	return nil
}

func (v *device) ReadAt(p []byte, off int64) (int, error) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if off >= v.d.Size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), v.d.Size-off))
	for _, bad := range v.d.Bad {
		if bad >= off && bad < off+int64(n) {
			return 0, fmt.Errorf("reading %s at %d: input/output error", v.disk.Path, off)
		}
	}
	v.d.Read += int64(n)
	if v.alone {
		v.d.ReadAlone += int64(n)
	}
	clear(p[:n])
	for number, content := range v.d.pages {
		from := number * page
		if lo, hi := max(from, off), min(from+page, off+int64(n)); lo < hi {
			copy(p[lo-off:hi-off], content[lo-from:hi-from])
		}
	}
	return n, nil
}

func (h disks) Identify(_ context.Context, v host.Device) (map[string]string, error) {
	h.changes.Read()
	d := v.(*device).d
	if d.Ambivalent {
		return nil, &host.AmbivalentError{Disk: v.Disk()}
	}
	return maps.Clone(d.Tags), h.Fail["blkid"]
}

func (h disks) Signatures(_ context.Context, v host.Device) ([]string, error) {
	h.changes.Read()
	return v.(*device).d.Signatures, h.Fail["wipefs -n"]
}

func (h disks) Erase(_ context.Context, v host.Device) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	if err := h.change("wipefs", v.Disk().Path); err != nil {
		return err
	}
	d := v.(*device).d
	d.Tags, d.Signatures, d.Partitions, d.Ambivalent = map[string]string{}, nil, nil, false
	return nil
}

// MakeExt4 can be stopped in the middle: then the disk contains something that no tool
// recognizes.
func (h disks) MakeExt4(_ context.Context, v host.Device, uuid string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	d := v.(*device).d
	if err := h.change("mkfs", v.Disk().Path); err != nil {
		d.Write(8<<20, []byte("half of a filesystem"))
		return err
	}
	d.pages, d.Tags = map[int64][]byte{}, map[string]string{}
	d.Write(32<<10, []byte("half of a filesystem"))
	if err := h.change("mkfs: write the superblock of", v.Disk().Path); err != nil {
		return err
	}
	d.makeExt4(uuid)
	return nil
}

func (h disks) CheckExt4(_ context.Context, v host.Device) error {
	h.changes.Read()
	if d := v.(*device).d; d.Tags["TYPE"] != "ext4" {
		return errors.New("e2fsck: bad magic number in super-block")
	}
	return h.Fail["e2fsck"]
}

// GrowExt4 can be stopped in the middle: then the filesystem has half of the new room.
func (h disks) GrowExt4(_ context.Context, v host.Device, point string) error {
	if err := v.Same(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.Command()
	d := v.(*device).d
	if m := h.mountedAt(point); m == nil || m.Device != d.Number {
		return fmt.Errorf("entering %s: the filesystem there is not on %s", point, v.Disk().Path)
	}
	if err := h.change("resize2fs", v.Disk().Path); err != nil {
		return err
	}
	if d.miscounted {
		return errors.New("resize2fs: Segmentation fault: the kernel has a BUG")
	}
	d.setExt4Size((d.Ext4Size() + d.Size) / 2)
	d.setDirty(dirty)
	if err := h.change("resize2fs: add the rest to", v.Disk().Path); err != nil {
		return err
	}
	d.setExt4Size(d.Size)
	d.setDirty(0)
	return nil
}

func (h disks) Announce(_ context.Context, disk host.Disk) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.change("udevadm trigger", disk.Node)
}
