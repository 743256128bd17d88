package storage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	mounted = "True Mounted"
	served  = "True Served"
	notYet  = "False NotMounted"
)

func TestBlankDiskIsFormattedMountedAndExported(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	r.expect(mounted, served)
	want := []string{"wanted with blank check", "started", "formatted"}
	if diff := cmp.Diff(want, r.permits.log); diff != "" {
		t.Errorf("format exchange: %s", diff)
	}
	if got := r.m.On(volume).Tags["UUID"]; got != assigned {
		t.Errorf("the filesystem has the UUID %s, want %s", got, assigned)
	}
	if got := r.m.On(volume).Inside["nfs/pv1"]; got == nil || got.UID != 65534 || got.GID != 65534 {
		t.Errorf("the exported directory is %+v, want it to belong to nobody", got)
	}
	if !strings.Contains(r.file(journalOf(volume)), `"phase": "reported"`) {
		t.Errorf("journal: %s", r.file(journalOf(volume)))
	}
	r.idle()
	r.restart()
	r.idle()
}

func TestOrderOfEverything(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	r.expect(mounted, served)
	device := "/dev/disk/by-id/virtio-4a0d9f3e-1b2c-4d5e-8"
	want := []string{
		"write /var/lib/nodehitch/agent/inventory.json",
		"guard /volume",
		"write " + journalOf(volume),
		"write " + journalOf(volume),
		"mkfs " + device,
		"mkfs: write the superblock of " + device,
		"write " + journalOf(volume),
		"udevadm trigger /dev/vdb",
		"write /etc/systemd/system/volume.mount",
		`write /etc/systemd/system/dev-disk-by\x2did-virtio\x2d4a0d9f3e\x2d1b2c\x2d4d5e\x2d8.device.d/nodehitch.conf`,
		"enable volume.mount",
		"start volume.mount",
		"write " + journalOf(volume),
		"write /var/lib/nodehitch/agent/inventory.json",
		"write /etc/systemd/system/nfs-server.service.d/nodehitch.conf",
		"write /etc/nfs.conf.d/nodehitch.conf",
		"reload systemd",
		"make /volume/nfs/pv1",
		"write /etc/exports.d/nodehitch.exports",
		"install [NFS server]",
		"configure [NFS server]",
		"write /var/lib/nodehitch/agent/inventory.json",
		"exportfs -ra",
		"exportfs -f",
	}
	if diff := cmp.Diff(want, r.m.Trace); diff != "" {
		t.Error(diff)
	}
}

func TestOursIsMountedAndKept(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned), hosttest.Kept("photo.jpg")))
	r.permits.refuse = errAway
	r.expect(mounted, served)
	r.untouched()
	if len(r.permits.log) != 0 {
		t.Errorf("asked for a permit: %q", r.permits.log)
	}
	if !slices.Contains(r.m.On(volume).Files, "photo.jpg") {
		t.Error("the file on the volume is lost")
	}
	r.idle()
}

// Whatever is on the disk stays, even if a permit to format it exists.
func TestForeignIsNeverTouched(t *testing.T) {
	cases := map[string]struct {
		found func(*hosttest.DiskState)
		words string
	}{
		"ext4":                 {hosttest.Ext4("11111111-2222-4333-8444-555555555555"), "content of type ext4 (UUID 11111111"},
		"xfs":                  {hosttest.Signed("xfs"), "content of type xfs"},
		"btrfs":                {hosttest.Signed("btrfs"), "content of type btrfs"},
		"swap":                 {hosttest.Signed("swap"), "content of type swap"},
		"LVM":                  {hosttest.Signed("LVM2_member"), "content of type LVM2_member"},
		"LUKS":                 {hosttest.Signed("crypto_LUKS"), "content of type crypto_LUKS"},
		"GPT with partitions":  {hosttest.Table("gpt", "vdb1", "vdb2"), "partitions (vdb1, vdb2)"},
		"GPT, empty":           {hosttest.Table("gpt"), "a partition table (gpt)"},
		"MBR, empty":           {hosttest.Table("dos"), "a partition table (dos)"},
		"several signatures":   {hosttest.With(func(d *hosttest.DiskState) { d.Ambivalent = true }), "more than one kind"},
		"only wipefs knows it": {hosttest.With(func(d *hosttest.DiskState) { d.Signatures = []string{"zfs_member at 0x3f000"} }), "zfs_member"},
		"raw data at the head": {hosttest.Bytes(0, 0x7f), "byte 0 is 0x7f"},
		"raw data at the end":  {hosttest.Bytes(gib-1, 1), "byte 1073741823 is 0x01"},
		"raw data at a sample": {hosttest.Bytes(gib/1024*500+77, 9), "byte 524288077 is 0x09"},
		"a disk in use":        {hosttest.With(func(d *hosttest.DiskState) { d.Holders = []string{"dm-0"} }), "a part of dm-0"},
		"swap in use":          {hosttest.With(func(d *hosttest.DiskState) { d.Swap = true }), "swap in use"},
		"ours, in use":         {hosttest.With(func(d *hosttest.DiskState) { hosttest.Ext4(assigned)(d); d.Holders = []string{"md0"} }), "a part of md0"},
		"ours, damaged": {hosttest.With(func(d *hosttest.DiskState) { hosttest.Ext4(assigned)(d); d.Tags = nil }),
			"that is damaged"},
		"ours, under a partition table": {hosttest.With(func(d *hosttest.DiskState) { hosttest.Ext4(assigned)(d); d.Tags["PTTYPE"] = "gpt" }),
			"a partition table (gpt)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib, c.found, hosttest.Kept("photo.jpg")))
			report := r.expect("False ForeignData", notYet)
			r.untouched()
			r.says(report, api.ConditionVolumesMounted, c.words, "hitchctl volume reformat "+volume)
			adopt := "hitchctl volume adopt " + volume + " --filesystem-uuid 11111111-2222-4333-8444-555555555555`"
			mounted := report.Condition(api.ConditionVolumesMounted)
			if got := strings.Contains(mounted.Message, adopt); got != (name == "ext4") {
				t.Errorf("advises to adopt: %v; only an ext4 can be adopted", got)
			}
			if got := slices.Contains(mounted.Adoptable, api.AdoptableVolume{VolumeID: volume, FilesystemUUID: "11111111-2222-4333-8444-555555555555"}); got != (name == "ext4") {
				t.Errorf("adoptable: %v", mounted.Adoptable)
			}
			if report.FailedCondition != api.ConditionVolumesMounted {
				t.Errorf("failed condition %q: a person has to act, so it is terminal", report.FailedCondition)
			}
			if slices.Contains(r.permits.log, "wanted with blank check") {
				t.Error("a proof was sent although there is none")
			}
		})
	}
}

func TestUnknownIsNotBlank(t *testing.T) {
	cases := map[string]func(*hosttest.DiskState){
		"unreadable at the head":             hosttest.Unreadable(100),
		"unreadable in the middle":           hosttest.Unreadable(gib / 2),
		"unreadable at the end":              hosttest.Unreadable(gib - 1),
		"claimed by another, who knows what": hosttest.With(func(d *hosttest.DiskState) { d.Claimed = true }),
	}
	for name, found := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib, found))
			r.expect("Unknown Unreadable", notYet)
			r.untouched()
			if len(r.permits.log) != 0 {
				t.Errorf("asked: %q", r.permits.log)
			}
		})
	}
	for _, program := range []string{"blkid", "wipefs -n"} {
		t.Run(program+" fails", func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib))
			r.m.Fail[program] = errors.New("no such program is installed")
			r.expect("Unknown Unreadable", notYet)
			r.untouched()
		})
	}
}

// A blank disk is read for the plan, for the permit, and right before mkfs; the last
// two times with an exclusive claim.
func TestHowOftenABlankDiskIsRead(t *testing.T) {
	const whole = 64 << 20 // up to this size every byte is read
	r := machine(t, hosttest.Disk(volume, whole))
	r.doc.Storage.Volumes[0].SizeBytes = whole
	r.expect(mounted, served)
	d := r.m.On(volume)
	if all, alone := d.Read/whole, d.ReadAlone/whole; all != 3 || alone != 2 {
		t.Errorf("it was read %d times, %d of them by who had it for himself; want 3 and 2", all, alone)
	}
}

func TestDeviceHasToBeTheOne(t *testing.T) {
	cases := map[string]struct {
		parts []hosttest.Part
		want  string
		says  string // what to do about it
	}{
		"none":         {nil, "False WaitingForDevice", "attach it to this server"},
		"another":      {[]hosttest.Part{hosttest.Disk(volume2, gib)}, "False WaitingForDevice", "attach it to this server"},
		"two disks":    {[]hosttest.Part{hosttest.Disk(volume, gib), hosttest.Disk(volume, gib)}, "False AmbiguousDevice", "detach those that are not the volume"},
		"smaller":      {[]hosttest.Part{hosttest.Disk(volume, gib-512)}, "False SizeMismatch", "check that the right volume is attached"},
		"larger":       {[]hosttest.Part{hosttest.Disk(volume, 2*gib)}, "False SizeMismatch", "check that the right volume is attached"},
		"a clone":      {[]hosttest.Part{hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Disk(volume2, gib, hosttest.Ext4(assigned))}, "False AmbiguousDevice", "detach the copy"},
		"lone clone":   {[]hosttest.Part{hosttest.Disk(volume, gib), hosttest.Disk(volume2, gib, hosttest.Ext4(assigned))}, "False AmbiguousDevice", "detach the copy"},
		"mounted away": {[]hosttest.Part{hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), elsewhere("/mnt")}, "False MountPointBusy", "umount /mnt"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, c.parts...)
			report := r.expect(c.want, notYet)
			if message := report.Condition(api.ConditionVolumesMounted).Message; !strings.Contains(message, c.says) {
				t.Errorf("the message %q does not say %q", message, c.says)
			}
			r.untouched()
			if r.did("start volume.mount") {
				t.Error("mounted")
			}
			if name != "mounted away" && r.m.Directories["/volume"] == nil {
				t.Error("the empty mount point is not guarded")
			}
		})
	}
}

// elsewhere is a mount of the volume that a person made.
func elsewhere(path string) hosttest.Part {
	return func(m *hosttest.Machine) {
		m.MountTable = append(m.MountTable, host.Mount{Point: path, Root: "/", FSType: "ext4", Device: m.On(volume).Number})
	}
}

func TestSizeThatIsNotKnownIsNotChecked(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, 3*gib))
	r.doc.Storage.Volumes[0].SizeBytes = 0
	r.expect(mounted, served)
}

// A filesystem without a journal is not what a volume gets.
func TestDiskThatIsTooSmallForAJournal(t *testing.T) {
	for size, want := range map[int64]string{8 << 20: mounted, 8<<20 - 512: "False SizeMismatch", 512: "False SizeMismatch"} {
		r := machine(t, hosttest.Disk(volume, size))
		r.doc.Storage.Volumes[0].SizeBytes = 0
		exports := notYet
		if want == mounted {
			exports = served
		}
		r.expect(want, exports)
	}
}

func TestMountPointHasToBeFree(t *testing.T) {
	cases := map[string]struct {
		part  hosttest.Part
		words string
	}{
		"not empty":          {hosttest.Directory("/volume", hosttest.Containing("photo.jpg")), `"photo.jpg"`},
		"a file":             {hosttest.Directory("/volume", hosttest.Not("a file")), "is a file"},
		"a link on the way":  {hosttest.Directory("/volume", hosttest.LeadingTo("/srv/volume")), "/srv/volume"},
		"something mounted":  {hosttest.Mounted("/volume", "tmpfs", "tmpfs"), "a tmpfs from tmpfs is mounted"},
		"an ext4 of another": {hosttest.Mounted("/volume", "ext4", "/dev/vdz"), "/dev/vdz"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib), c.part)
			report := r.expect("False MountPointBusy", notYet)
			r.untouched()
			r.says(report, api.ConditionVolumesMounted, c.words)
			if r.did("guard") || r.did("detach") || r.did("stop") {
				t.Errorf("touched what is not ours: %q", r.m.Trace)
			}
		})
	}
}

func TestNoPermitNoFormat(t *testing.T) {
	cases := map[string]struct {
		refuse error
		want   string
	}{
		"refused":      {converge.Wait(api.ReasonNoPermit, "a volume is formatted once"), "False NoPermit"},
		"no answer":    {errAway, "False NoPermit"},
		"interrupted":  {converge.Fail(api.ReasonFormatInterrupted, "its server vanished"), "False FormatInterrupted"},
		"two servers":  {converge.Wait(api.ReasonMultiAttached, "attached to two"), "False MultiAttached"},
		"no id at all": {nil, "Unknown InternalError"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib))
			r.permits.refuse = c.refuse
			if c.refuse == nil {
				r = machine(t, hosttest.Disk(volume, gib))
				r.useNoID()
			}
			r.expect(c.want, notYet)
			r.untouched()
			before := r.m.Changes()
			r.expect(c.want, notYet)
			if since := r.m.Changes().Since(before); !since.None() {
				t.Errorf("waiting for a permit changes the machine: %s", since)
			}
			r.permits.refuse = nil
			r.restart()
			r.expect(mounted, served)
		})
	}
}

func TestReasonsAreRegistered(t *testing.T) {
	for _, reason := range []api.Reason{
		api.ReasonWaitingForDevice, api.ReasonAmbiguousDevice, api.ReasonSizeMismatch, api.ReasonForeignData, api.ReasonUnreadable,
		api.ReasonNoPermit, api.ReasonFormatInterrupted, api.ReasonFormatFailed, api.ReasonGrowFailed, api.ReasonMountPointBusy, api.ReasonMountFailed,
		api.ReasonMounted, api.ReasonNotMounted, api.ReasonServerNotRunning, api.ReasonExportRefused, api.ReasonClientsNotRecorded, api.ReasonServed,
		api.ReasonPackageUnavailable, api.ReasonPackageManagerBusy, api.ReasonInvalidDocument, api.ReasonRemoved,
	} {
		if api.Reasons[reason].Meaning == "" {
			t.Errorf("%s has no explanation", reason)
		}
	}
}
