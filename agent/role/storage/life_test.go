package storage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// served is a machine that serves one volume, converged.
func serving(t *testing.T, parts ...hosttest.Part) *rig {
	r := machine(t, append([]hosttest.Part{hosttest.Disk(volume, gib, hosttest.Ext4(assigned), hosttest.Kept("photo.jpg")), hosttest.Server}, parts...)...)
	r.expect(mounted, served)
	r.m.Trace = nil
	return r
}

func (r *rig) exported() []string {
	var lines []string
	for _, e := range r.m.Table {
		lines = append(lines, e.Directory+" "+e.Client)
	}
	slices.Sort(lines)
	return lines
}

func (r *rig) mountedAt(path string) bool {
	return slices.ContainsFunc(r.m.MountTable, func(m host.Mount) bool { return m.Point == path })
}

func TestNoSectionMeansHandsOff(t *testing.T) {
	r := serving(t)
	r.doc.Storage = nil
	report := r.converge()
	if len(report.Conditions) != 1 || report.Changed || !r.mountedAt("/volume") {
		t.Errorf("conditions %+v, changed %v", report.Conditions, report.Changed)
	}
}

func TestEmptySectionRemovesWhatIsOursAndKeepsTheData(t *testing.T) {
	r := serving(t, hosttest.WithFile("/etc/exports", "/srv/other 10.0.0.0/8(ro)\n", 0o644), hosttest.Directory("/srv"))
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
	if r.mountedAt("/volume") || r.m.Directories["/volume"] != nil {
		t.Errorf("still there: %+v", r.m.MountTable)
	}
	for path := range r.m.Files {
		if strings.HasPrefix(path, "/etc/") && path != "/etc/exports" {
			t.Errorf("%s is left", path)
		}
	}
	if got := r.exported(); !slices.Equal(got, []string{"/srv/other 10.0.0.0/8"}) {
		t.Errorf("exported: %q, want the operator's own line alone", got)
	}
	if !r.m.Units["nfs-server.service"].Active {
		t.Error("the server was stopped although the operator exports something")
	}
	if !slices.Contains(r.m.On(volume).Files, "photo.jpg") || r.m.On(volume).Tags["UUID"] != assigned {
		t.Error("the data is lost")
	}
	r.idle()
	r.doc = document()
	r.expect(mounted, served)
}

func TestVolumeThatNeverHadADiskIsForgotten(t *testing.T) {
	r := machine(t)
	r.expect("False WaitingForDevice", notYet)
	r.doc.Storage = &api.StorageSection{}
	report := r.expect("True Removed", "True Removed")
	for _, a := range report.Results[0].Planned {
		if strings.HasSuffix(a.Summary, " ") {
			t.Errorf("planned %q, which names nothing", a.Summary)
		}
	}
	r.idle()
}

func TestServerThatWeStartedIsStopped(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.expect(mounted, served)
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
	if u := r.m.Units["nfs-server.service"]; u.Active || u.Enabled {
		t.Errorf("nfs-server is %+v", u)
	}
	r.idle()
}

// exportfs -ra keeps an entry whose mountpoint= is not mounted.
func TestExportOfAVolumeThatWasUnmountedByHandIsRemoved(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.expect(mounted, served)
	r.m.MountTable = nil
	r.doc.Storage = &api.StorageSection{}
	r.m.Fail["exportfs -u"] = errors.New("exportfs failed")
	r.expect("True Removed", "Unknown InternalError")
	delete(r.m.Fail, "exportfs -u")
	r.expect("True Removed", "True Removed")
	if got := r.exported(); len(got) != 0 {
		t.Errorf("exported: %q, want nothing", got)
	}
	if u := r.m.Units["nfs-server.service"]; u.Active || u.Enabled {
		t.Errorf("nfs-server is %+v", u)
	}
}

func TestServerThatWasThereBeforeIsLeft(t *testing.T) {
	r := serving(t)
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
	if u := r.m.Units["nfs-server.service"]; !u.Active || !u.Enabled {
		t.Errorf("nfs-server is %+v", u)
	}
}

func TestMountPointThatWasThereBeforeIsGivenBack(t *testing.T) {
	r := serving(t, hosttest.Directory("/volume", func(d *hosttest.DirectoryState) { d.Mode = 0o750 }))
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
	if d := r.m.Directories["/volume"]; d == nil || d.Mode != 0o750 || d.Immutable {
		t.Errorf("the mount point is %+v, want it as it was", d)
	}
}

func TestRemovalTouchesNothingOfOthers(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), elsewhere("/mnt"),
		hosttest.WithFile("/etc/systemd/system/mnt.mount", "[Mount]\n", 0o644))
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
	if len(r.m.Trace) != 0 {
		t.Errorf("did %q", r.m.Trace)
	}
}

// Another filesystem is mounted where ours was.
func TestRemovalUnmountsNothingOfOthers(t *testing.T) {
	r := serving(t, hosttest.Disk(volume2, gib, hosttest.Ext4(assigned2)))
	r.m.MountTable[0].Device = r.m.On(volume2).Number
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
	if !r.mountedAt("/volume") || r.did("stop volume.mount") || r.did("detach") {
		t.Errorf("unmounted what is not ours: %q", r.m.Trace)
	}
}

// Between the inspection and the mount, another disk takes the place.
func TestDiskThatIsSwappedBeforeItIsMounted(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.m.Before = func(change string) {
		if change == "enable volume.mount" && len(r.m.Disks) == 1 {
			r.m.Detach(r.m.On(volume))
			r.m.Attach(hosttest.NewDisk(volume, gib, hosttest.Ext4(assigned2)))
		}
	}
	r.expect("False ForeignData", notYet)
	if r.did("start volume.mount") {
		t.Error("mounted another's filesystem")
	}
}

// systemd mounts another disk than the one that was inspected.
func TestWrongMountIsTakenAway(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.m.Before = func(change string) {
		if change == "start volume.mount" {
			hosttest.Ext4(assigned2)(r.m.On(volume))
		}
	}
	r.expect("False ForeignData", notYet)
	if r.mountedAt("/volume") {
		t.Error("another's filesystem stays mounted")
	}
}

func TestVolumeMovesToAnotherPath(t *testing.T) {
	r := serving(t)
	r.doc.Storage.Volumes[0].MountPath = "/data"
	r.doc.Storage.Exports[0].Directory = "/data/nfs/pv1"
	r.expect(mounted, served)
	if r.mountedAt("/volume") || !r.mountedAt("/data") {
		t.Errorf("mounts: %+v", r.m.MountTable)
	}
	if got := r.exported(); !slices.Equal(got, []string{"/data/nfs/pv1 10.10.0.0/24"}) {
		t.Errorf("exported: %q", got)
	}
	r.idle()
}

func TestAnotherVolumeTakesThePlace(t *testing.T) {
	r := serving(t, hosttest.Disk(volume2, gib, hosttest.Ext4(assigned2)))
	r.doc.Storage.Volumes[0].VolumeID, r.doc.Storage.Volumes[0].FilesystemUUID = volume2, assigned2
	r.expect(mounted, served)
	if len(r.m.MountTable) != 1 || r.m.MountTable[0].Device != r.m.On(volume2).Number {
		t.Errorf("mounts: %+v", r.m.MountTable)
	}
	if d := r.m.Directories["/volume"]; d == nil || !d.Immutable {
		t.Errorf("the mount point is not guarded: %+v", d)
	}
	r.idle()
}

func TestDriftIsRepaired(t *testing.T) {
	cases := map[string]func(*rig){
		"unit file edited": func(r *rig) {
			r.m.Files["/etc/systemd/system/volume.mount"] = hosttest.FileState{Content: "[Mount]\n", Mode: 0o644}
		},
		"unit file edited and read": func(r *rig) {
			r.m.Files["/etc/systemd/system/volume.mount"] = hosttest.FileState{Content: "[Mount]\nWhat=x\n", Mode: 0o644}
			r.m.Units["volume.mount"].Loaded = "[Mount]\nWhat=x\n"
		},
		"unit file repaired, not read": func(r *rig) { r.m.Units["volume.mount"].Loaded = "[Mount]\nWhat=x\nWhere=/volume\n" },
		"unit disabled":                func(r *rig) { r.m.Units["volume.mount"].Enabled = false },
		"unmounted by hand":            func(r *rig) { r.m.MountTable = nil },
		"exports file edited": func(r *rig) {
			r.m.Files["/etc/exports.d/nodehitch.exports"] = hosttest.FileState{Content: "/ *(rw,no_root_squash)\n", Mode: 0o644}
			r.m.Table = []host.Export{{Directory: "/", Client: "*"}}
		},
		"exports file gone": func(r *rig) { delete(r.m.Files, "/etc/exports.d/nodehitch.exports") },
		"exports file's mode": func(r *rig) {
			f := r.m.Files["/etc/exports.d/nodehitch.exports"]
			f.Mode = 0o666
			r.m.Files["/etc/exports.d/nodehitch.exports"] = f
		},
		"unexported by hand": func(r *rig) { r.m.Table = nil },
		"exported otherwise": func(r *rig) { r.m.Table[0].Options = []string{"ro"} },
		"server stopped":     func(r *rig) { r.m.Units["nfs-server.service"].Active = false },
		"server disabled":    func(r *rig) { r.m.Units["nfs-server.service"].Enabled = false },
		"directory gone":     func(r *rig) { delete(r.m.On(volume).Inside, "nfs/pv1") },
		"directory's owner":  func(r *rig) { r.m.On(volume).Inside["nfs/pv1"].UID = 0 },
		"inventory lost":     func(r *rig) { delete(r.m.Files, "/var/lib/nodehitch/agent/inventory.json") },
		"package removed": func(r *rig) {
			delete(r.m.Installed, host.NFSServer)
			delete(r.m.Units, "nfs-server.service")
			r.m.Table = nil
		},
		"rebooted":                func(r *rig) { r.m.Reboot() },
		"rebooted, unit disabled": func(r *rig) { r.m.Units["volume.mount"].Enabled = false; r.m.Reboot() },
	}
	for name, drift := range cases {
		t.Run(name, func(t *testing.T) {
			r := serving(t)
			drift(r)
			r.expect(mounted, served)
			if got := r.exported(); !slices.Equal(got, []string{"/volume/nfs/pv1 10.10.0.0/24"}) {
				t.Errorf("exported: %q", got)
			}
			if !slices.Contains(r.m.On(volume).Files, "photo.jpg") {
				t.Error("the data is lost")
			}
			r.untouched()
			r.idle()
			for name, u := range r.m.Units {
				if path := "/etc/systemd/system/" + name; u.Loaded != r.file(path)+r.file(path+".d/nodehitch.conf") {
					t.Errorf("systemd has not read %s", name)
				}
			}
		})
	}
}

func TestRebootNeedsNoController(t *testing.T) {
	r := serving(t)
	r.m.Reboot()
	if !r.mountedAt("/volume") || len(r.m.Table) != 1 {
		t.Fatalf("after the boot, before the agent: mounts %+v, exports %+v", r.m.MountTable, r.m.Table)
	}
	r.permits.refuse = errAway
	r.restart()
	r.idle()
}

// The disk disappears while it is mounted, and comes back under another name.
func TestDiskGoesAndComesBack(t *testing.T) {
	r := serving(t)
	disk := r.m.On(volume)
	r.m.Detach(disk)
	report := r.expect("False WaitingForDevice", notYet)
	if r.mountedAt("/volume") || len(r.m.Table) != 0 {
		t.Errorf("mounts %+v, exports %+v; want nothing mounted and nothing exported", r.m.MountTable, r.m.Table)
	}
	if d := r.m.Directories["/volume"]; d == nil || !d.Immutable || d.Mode != 0 {
		t.Errorf("the mount point is open: %+v", d)
	}
	r.says(report, api.ConditionExportsServed, "nothing on it is exported")
	r.idle()
	r.m.Attach(disk)
	r.expect(mounted, served)
	if !slices.Contains(disk.Files, "photo.jpg") {
		t.Error("the data is lost")
	}
	r.idle()
}

func TestMountOfADiskThatIsGoneIsDetachedWhenItIsHeld(t *testing.T) {
	r := serving(t)
	r.m.Detach(r.m.On(volume))
	r.m.Fail["stop"] = errors.New("target is busy")
	r.expect("False WaitingForDevice", notYet)
	if r.mountedAt("/volume") || !r.did("detach /volume") {
		t.Errorf("did %q", r.m.Trace)
	}
}

func TestMountThatIsOfAnotherIsLeftAlone(t *testing.T) {
	r := serving(t)
	hosttest.Ext4(assigned2)(r.m.On(volume))
	r.m.Trace = nil
	r.expect("False MountPointBusy", notYet)
	if !r.mountedAt("/volume") || r.did("stop volume.mount") {
		t.Errorf("unmounted what is not ours: %q", r.m.Trace)
	}
	if len(r.m.Table) != 0 {
		t.Errorf("what is not ours is exported: %+v", r.m.Table)
	}
}

func TestReadOnlyFilesystemIsReported(t *testing.T) {
	r := serving(t)
	r.m.MountTable[0].SuperOptions = []string{"ro", "errors=remount-ro"}
	report := r.expect("False MountFailed", served)
	r.says(report, api.ConditionVolumesMounted, "read-only", "e2fsck")
}

func TestMountThatFails(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.m.Fail["start"] = errors.New("timeout")
	report := r.expect("False MountFailed", notYet)
	r.says(report, api.ConditionVolumesMounted, "timeout", "virtio-4a0d9f3e")
	delete(r.m.Fail, "start")
	r.expect(mounted, served)
}

func TestOneVolumeDoesNotStopTheOther(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Signed("xfs")), hosttest.Disk(volume2, gib))
	r.doc.Storage.Volumes = append(r.doc.Storage.Volumes, api.StorageVolume{
		VolumeID: volume2, SizeBytes: gib, MountPath: "/second", Filesystem: api.Ext4, FilesystemUUID: assigned2})
	r.doc.Storage.Exports = append(r.doc.Storage.Exports, api.StorageExport{
		Directory: "/second", Client: "10.10.0.7", Options: []string{"rw"}})
	r.expect("False ForeignData", notYet)
	if !r.mountedAt("/second") || r.mountedAt("/volume") {
		t.Errorf("mounts: %+v", r.m.MountTable)
	}
	if got := r.exported(); !slices.Equal(got, []string{"/second 10.10.0.7"}) {
		t.Errorf("exported: %q", got)
	}
	if r.m.On(volume).Tags["TYPE"] != "xfs" {
		t.Error("the foreign disk was touched")
	}
}

func TestPackages(t *testing.T) {
	cases := map[string]struct {
		err  error
		want string
	}{
		"busy":        {&host.BusyError{Detail: "process 12 (apt-get)"}, "False PackageManagerBusy"},
		"unavailable": {&host.UnavailableError{Package: "nfs-kernel-server", Detail: "Unable to locate package"}, "False PackageUnavailable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib), hosttest.Missing(c.err))
			r.doc.Proxy = &api.ProxySection{HTTP: "http://user1:password1@host1:port1"}
			report := r.expect(mounted, c.want)
			if r.m.Proxy.HTTP != "http://user1:password1@host1:port1" {
				t.Errorf("proxy: %+v", r.m.Proxy)
			}
			if strings.Contains(report.Condition(api.ConditionExportsServed).Message, "password1") {
				t.Error("the message has the proxy's password")
			}
			r.m.Unavailable = nil
			r.expect(mounted, served)
		})
	}
	t.Run("the programs for ext4", func(t *testing.T) {
		r := machine(t, hosttest.Disk(volume, gib))
		delete(r.m.Installed, host.Ext4Tools)
		r.expect(mounted, served)
		if !r.did("install [ext4 tools]") {
			t.Errorf("did %q", r.m.Trace)
		}
	})
}

func TestDryRunDoesNothing(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	report := r.engine.Converge(t.Context(), r.doc, converge.Options{DryRun: true})
	if !r.m.Changes().None() || len(r.permits.log) != 0 {
		t.Errorf("a dry run changed %s and asked %q", r.m.Changes(), r.permits.log)
	}
	var plan []string
	for _, a := range report.Results[0].Planned {
		plan = append(plan, a.Summary)
	}
	if text := strings.Join(plan, "; "); !strings.Contains(text, "format /dev/disk/by-id/virtio-4a0d9f3e-1b2c-4d5e-8 as ext4 "+assigned) {
		t.Errorf("plan: %s", text)
	}
}
