package storage

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What exportfs prints was taken from nfs-utils 2.6.2 with a kernel that has nfsd,
// and without.
func TestSameOptions(t *testing.T) {
	ours := []string{"rw", "sync", "no_subtree_check", "insecure", "all_squash", "mountpoint=/volume"}
	reported := func(text string) []string { return host.ParseExports("/x c(" + text + ")\n")[0].Options }
	cases := map[string]struct {
		wanted   []string
		reported string
		same     bool
	}{
		"as it is":             {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,insecure,root_squash,all_squash", true},
		"without nfsd":         {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,root_squash,all_squash", true},
		"secure":               {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,secure,root_squash,all_squash", false},
		"ro":                   {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,ro,insecure,root_squash,all_squash", false},
		"async":                {ours, "async,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,insecure,root_squash,all_squash", false},
		"no mountpoint":        {ours, "sync,wdelay,hide,no_subtree_check,sec=sys,rw,insecure,root_squash,all_squash", false},
		"another mountpoint":   {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/,sec=sys,rw,insecure,root_squash,all_squash", false},
		"no_all_squash":        {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,insecure,root_squash,no_all_squash", false},
		"no_root_squash":       {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,insecure,no_root_squash,all_squash", false},
		"another user":         {ours, "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,anonuid=0,sec=sys,rw,insecure,root_squash,all_squash", false},
		"crossmnt":             {ours, "sync,wdelay,hide,crossmnt,no_subtree_check,mountpoint=/volume,sec=sys,rw,insecure,root_squash,all_squash", false},
		"subtree_check":        {[]string{"subtree_check"}, "sync,wdelay,hide,sec=sys,ro,secure,root_squash,no_all_squash", false},
		"no_root_squash asked": {[]string{"rw", "sync", "no_subtree_check", "insecure", "no_root_squash"}, "sync,wdelay,hide,no_subtree_check,sec=sys,rw,insecure,no_root_squash,no_all_squash", true},
		"anonuid asked":        {append(slices.Clone(ours), "anonuid=1000", "anongid=1000"), "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,anonuid=1000,anongid=1000,sec=sys,rw,insecure,root_squash,all_squash", true},
		"krb5 asked":           {append(slices.Clone(ours), "sec=krb5i:krb5p"), "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=krb5i:krb5p,rw,insecure,root_squash,all_squash", true},
		"krb5 asked, sys had":  {append(slices.Clone(ours), "sec=krb5i"), "sync,wdelay,hide,no_subtree_check,mountpoint=/volume,sec=sys,rw,insecure,root_squash,all_squash", false},
		"nothing but defaults": {nil, "sync,wdelay,hide,no_subtree_check,sec=sys,ro,secure,root_squash,no_all_squash", true},
	}
	for name, c := range cases {
		if got := sameOptions(c.wanted, reported(c.reported)); got != c.same {
			t.Errorf("%s: got %v, want %v", name, got, c.same)
		}
	}
}

func TestRegionsHaveEveryCopyOfASuperblock(t *testing.T) {
	for _, size := range []int64{1 << 20, 64 << 20, 64<<20 + 512, 1 << 30, 20<<30 + 512*7, 1 << 40, 16 << 40, 64 << 40} {
		list := regions(size)
		var last, sum int64 = -1, 0
		for _, r := range list {
			if r.from <= last || r.to <= r.from || r.to > size || r.from%page != 0 || r.to%page != 0 && r.to != size {
				t.Fatalf("%d bytes: region %+v after %d", size, r, last)
			}
			last, sum = r.to, sum+r.to-r.from
		}
		covered := func(at int64) bool {
			return slices.ContainsFunc(list, func(r region) bool { return r.from <= at && at < r.to })
		}
		for _, at := range slices.Concat(backups(size), []int64{0, superblockOffset, 64 << 10, 64 << 20, 256 << 30, size / 2, size / 4, size - 1, size - 512}) {
			if at < size && !covered(at) {
				t.Errorf("%d bytes: byte %d is not read", size, at)
			}
		}
		if size > whole && sum > 64<<20 {
			t.Errorf("%d bytes: %d are read", size, sum)
		}
		t.Logf("%d bytes: %d regions, %d bytes read", size, len(list), sum)
	}
}

// dumpe2fs of a 20 GiB filesystem lists these.
func TestBackupsAreWhereMkfsPutsThem(t *testing.T) {
	offsets := backups(20 << 30)
	for _, group := range []int64{1, 3, 5, 7, 9, 25, 27, 49, 81, 125} {
		if at := group * 32768 * 4096; !slices.Contains(offsets, at) {
			t.Errorf("the copy in group %d at %d is missing", group, at)
		}
	}
	for _, at := range []int64{8193 * 1024, 24577 * 1024, 16384 * 2048} {
		if !slices.Contains(offsets, at) {
			t.Errorf("the copy at %d is missing", at)
		}
	}
}

// Every combination of what can be found and what the journal can say: nothing but
// blank, or a format of this very disk that was begun, ever leads to mkfs.
func TestDecideWritesNothingByDefault(t *testing.T) {
	v := &api.StorageVolume{VolumeID: "v", FilesystemUUID: "u"}
	disk := host.Disk{Size: 100}
	fits := record{VolumeID: "v", FilesystemUUID: "u", SizeBytes: 100, NodeID: "n", Permit: "p"}
	var records []*record
	records = append(records, nil, &record{damaged: "x"})
	for _, p := range []phase{permitted, started, formatted, reported, "?"} {
		for _, overwrite := range []bool{false, true} {
			for _, change := range []func(*record){func(*record) {}, func(r *record) { r.NodeID = "m" }, func(r *record) { r.SizeBytes = 99 }, func(r *record) { r.FilesystemUUID = "w" }} {
				r := fits
				r.Phase, r.Overwrite = p, overwrite
				change(&r)
				records = append(records, &r)
			}
		}
	}
	for _, r := range records {
		for k := unknown; k <= foreign+1; k++ {
			for i := range 4 {
				c := content{kind: k, used: i&1 != 0, claimed: i&2 != 0}
				got, why := decide(c, r, v, disk, "n")
				begun := r != nil && r.Phase == started && r.misfit(v, disk, "n") == ""
				if got == format && (k != blank || r.unfinished()) {
					t.Errorf("%+v, %+v: format", c, r)
				}
				if got == resume && !begun {
					t.Errorf("%+v, %+v: resume", c, r)
				}
				if got == resume && (k == ours && c.used || k == foreign && c.claimed && !r.Overwrite) {
					t.Errorf("%+v, %+v: resume over a filesystem in use", c, r)
				}
				if (k == unknown || k > foreign) && got != wait {
					t.Errorf("%+v, %+v: %d", c, r, got)
				}
				if got == keep && k != ours {
					t.Errorf("%+v, %+v: keep", c, r)
				}
				_ = why
			}
		}
	}
}

// A disk of another size than the document says is never written to, and is mounted only if
// it is larger and has its filesystem.
func TestDecideBySize(t *testing.T) {
	disk := host.Disk{Size: 100}
	for _, told := range []int64{0, 99, 100, 101} {
		v := &api.StorageVolume{VolumeID: "v", FilesystemUUID: "u", SizeBytes: told}
		for _, r := range []*record{nil, {VolumeID: "v", FilesystemUUID: "u", SizeBytes: 100, NodeID: "n", Permit: "p", Phase: started}} {
			for k := unknown; k <= foreign; k++ {
				c := content{kind: k, used: true}
				as, _ := decideContent(c, r, v, disk, "n")
				want := as
				if told == 101 || told == 99 && k != ours {
					want = mismatch
				}
				if got, _ := decide(c, r, v, disk, "n"); got != want {
					t.Errorf("told %d, %+v, %+v: %d, expected %d", told, c, r, got, want)
				}
			}
		}
	}
}

func FuzzParseSuperblock(f *testing.F) {
	f.Add(make([]byte, superblockSize))
	whole := make([]byte, superblockSize)
	whole[0x38], whole[0x39] = 0x53, 0xEF
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		if sb, ok := parseSuperblock(b); ok && len(sb.UUID) != 36 {
			t.Errorf("%+v", sb)
		}
	})
}

// The text of these files is a contract with nfs-utils and systemd.
func TestFilesOfTheServersSettings(t *testing.T) {
	s := settings{scope: "nodehitch-" + testUUID, records: "/volume/.nodehitch/nfs-clients", mountPath: "/volume"}
	scope := `[Service]
ExecStartPre=-/usr/bin/touch /run/nodehitch-nfs-scope
ExecStartPre=-/usr/bin/umount --quiet /run/nodehitch-nfs-scope
ExecStartPre=/usr/bin/unshare --uts=/run/nodehitch-nfs-scope hostname nodehitch-` + testUUID + `
ExecStart=
ExecStart=/usr/bin/nsenter --uts=/run/nodehitch-nfs-scope /usr/sbin/rpc.nfsd
ExecStartPost=/usr/bin/umount /run/nodehitch-nfs-scope
`
	nfsd := "[nfsd]\nscope=nodehitch-" + testUUID + "\nlease-time=30\ngrace-time=45\n"
	for got, want := range map[string]string{
		settings{scope: s.scope}.configuration():     header + nfsd,
		s.configuration():                            header + nfsd + "vers3=n\n\n[nfsdcld]\nstoragedir=/volume/.nodehitch/nfs-clients\n",
		settings{scope: s.scope}.serverDropIn(true):  "",
		settings{scope: s.scope}.serverDropIn(false): header + scope,
		s.serverDropIn(true): header + `[Unit]
Wants=nfsdcld.service
After=nfsdcld.service

[Service]
ExecStartPre=/usr/bin/systemctl --quiet is-active nfsdcld.service
`,
		settings{scope: s.scope}.recordsDropIn(): "",
		s.recordsDropIn(): header + `[Unit]
RequiresMountsFor=/volume/.nodehitch/nfs-clients
ConditionPathIsMountPoint=/volume

[Service]
ExecStartPre=-/usr/bin/dd if=/volume/.nodehitch/nfs-clients/main.sqlite of=/dev/null status=none
`,
	} {
		if got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
	}
	if got := s.serverDropIn(false); !strings.HasPrefix(got, s.serverDropIn(true)) || !strings.HasSuffix(got, scope) {
		t.Errorf("not both:\n%s", got)
	}
}

// The commands of the drop-in start the server under the name, and leave the machine's own. A
// start that failed has left its namespace.
func TestTheServerSeesItsScopeAsTheHostName(t *testing.T) {
	needs(t, "unshare", "nsenter", "hostname", "umount")
	before := run(t, "uname", "-n")
	// Not the path of the machine, which may be in use.
	namespace := filepath.Join(t.TempDir(), "uts")
	text := strings.NewReplacer(scopeNamespace, namespace, "/usr/sbin/rpc.nfsd", "/usr/bin/uname -n").Replace(settings{scope: "nodehitch-" + testUUID}.serverDropIn(false))
	run(t, "touch", namespace)
	run(t, "unshare", "--uts="+namespace, "hostname", "of-a-failed-start")
	t.Cleanup(func() { _ = unix.Unmount(namespace, 0) })
	var seen string
	for line := range strings.Lines(text) {
		key, command, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || !strings.HasPrefix(key, "Exec") || command == "" {
			continue
		}
		if command, ok := strings.CutPrefix(command, "-"); ok {
			argv := strings.Fields(command)
			_ = exec.CommandContext(t.Context(), argv[0], argv[1:]...).Run() //nolint:gosec // the drop-in's
			continue
		}
		if said := run(t, strings.Fields(command)...); key == "ExecStart" {
			seen = said
		}
	}
	if seen != "nodehitch-"+testUUID {
		t.Errorf("rpc.nfsd would see the host name %q", seen)
	}
	if after := run(t, "uname", "-n"); after != before {
		t.Errorf("the machine's name is %q now, and was %q", after, before)
	}
}

// The text of these files is a contract with systemd; the cases on real machines test their
// effect.
func TestUnitFiles(t *testing.T) {
	v := &api.StorageVolume{VolumeID: "4a0d9f3e-1b2c-4d5e-8f60-718293a4b5c6", MountPath: "/srv/my-data"}
	got := mountFiles(v, "/dev/disk/by-id/virtio-4a0d9f3e-1b2c-4d5e-8", "/state/a%b.growing")
	want := []file{
		{`/etc/systemd/system/srv-my\x2ddata.mount`, header + `[Unit]
Description=Cinder volume 4a0d9f3e-1b2c-4d5e-8f60-718293a4b5c6 (nodehitch)
Before=nfs-server.service
ConditionPathExists=!/state/a%%b.growing

[Mount]
What=/dev/disk/by-id/virtio-4a0d9f3e-1b2c-4d5e-8
Where=/srv/my-data
Type=ext4
Options=nofail,nodev,nosuid,errors=remount-ro
DirectoryMode=0000
TimeoutSec=600

[Install]
WantedBy=multi-user.target
`},
		{`/etc/systemd/system/dev-disk-by\x2did-virtio\x2d4a0d9f3e\x2d1b2c\x2d4d5e\x2d8.device.d/nodehitch.conf`, header + "[Unit]\nJobRunningTimeoutSec=30s\n"},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %s:\n%s\nwant %s:\n%s", got[i].path, got[i].content, want[i].path, want[i].content)
		}
	}
	if got := specifiers("/a%b"); got != "/a%%b" {
		t.Errorf("systemd would expand %s", got)
	}
}
