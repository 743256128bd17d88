package registryserver_test

import (
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	volume = "4a0d9f3e-1b2c-4d5e-8f60-718293a4b5c6"
	gib    = 1 << 30
)

var assigned = api.FilesystemUUID(volume)

// onVolume is a registry whose data is in this directory of a volume at /volume.
func onVolume(t *testing.T, data string) *rig {
	r := docker(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.doc.Storage = &api.StorageSection{
		Volumes: []api.StorageVolume{{VolumeID: volume, SizeBytes: gib, MountPath: "/volume", Filesystem: api.Ext4, FilesystemUUID: assigned}},
		Exports: []api.StorageExport{},
	}
	r.doc.Registry.DataDirectory = data
	return r
}

func TestDataOnAVolume(t *testing.T) {
	r := onVolume(t, "/volume/registry")
	r.expect(running)
	r.runs(imageID, 5000)
	if made := r.m.On(volume).Inside["registry"]; made == nil || made.Mode != 0o700 || made.UID != 0 {
		t.Errorf("on the volume is %+v, want a directory of root's with mode 0700", made)
	}
	if r.m.Directories["/volume/registry"] != nil {
		t.Error("and there is one on the root disk")
	}
	if seen := r.container().Mounts[0]; seen.Device != r.m.On(volume).Number || seen.Root != "/registry" {
		t.Errorf("the container sees %+v", seen)
	}
}

// At boot the engine starts after the volume, as long as the data is on the volume.
func TestEngineStartsAfterTheVolume(t *testing.T) {
	const dropIn = "/etc/systemd/system/docker.service.d/nodehitch-volume.conf"
	r := onVolume(t, "/volume/registry")
	r.expect(running)
	if got := r.m.Files[dropIn].Content; !strings.HasSuffix(got, "[Unit]\nAfter=volume.mount\n") {
		t.Errorf("the drop-in is %q", got)
	}
	r.m.Files[dropIn] = hosttest.FileState{Content: "changed", Mode: 0o644}
	r.expect(running)
	if got := r.m.Files[dropIn].Content; got == "changed" {
		t.Error("a change in it is not put back")
	}
	r.doc.Registry.DataDirectory = directory
	r.expect(running)
	if _, there := r.m.Files[dropIn]; there {
		t.Error("it is still there, and the data is on the root disk")
	}
	r.runs(imageID, 5000)
}

// The engine starts the container before the volume is there: with the empty mount
// point below it, or with what was mounted before.
func TestVolumeThatComesLate(t *testing.T) {
	for name, data := range map[string]string{"a directory of it": "/volume/registry", "all of it": "/volume"} {
		t.Run(name, func(t *testing.T) {
			r := onVolume(t, data)
			if data == "/volume" { // its root directory, which every filesystem has
				r.m.On(volume).Inside["."] = &hosttest.Inside{}
				r.m.On(volume).Inside["."].Exists = true
			}
			r.expect(running)
			disk := r.m.On(volume)
			r.m.Detach(disk)
			r.m.Reboot()
			r.expect("False NotMounted", volume, "VolumesMounted")
			if c := r.container(); c.PID != 0 {
				t.Errorf("it runs on %+v without its volume", c.Mounts)
			}
			r.done()
			r.expect("False NotMounted")
			if done := r.done(); len(done) != 0 {
				t.Errorf("did %q while it waits", done)
			}
			r.m.Attach(disk)
			r.expect(running)
			r.runs(imageID, 5000)
			if seen := r.container().Mounts[0]; seen.Device != disk.Number {
				t.Errorf("the container sees %+v, want the volume", seen)
			}
		})
	}
}

func TestContainerThatStillSeesWhatWasThereBefore(t *testing.T) {
	r := onVolume(t, "/volume/registry")
	r.expect(running)
	r.container().Mounts[0].Device.Minor++ // the root disk, or a disk that has gone
	r.done()
	r.expect(running)
	r.runs(imageID, 5000)
	if seen := r.container().Mounts[0]; seen.Device != r.m.On(volume).Number {
		t.Errorf("the container sees %+v", seen)
	}
}

func TestLinkOnTheVolumeIsNotFollowed(t *testing.T) {
	r := onVolume(t, "/volume/registry")
	r.m.On(volume).Inside["registry"] = &hosttest.Inside{Problem: "leads through a symbolic link, which is not followed: remove the link"}
	r.expect("False DirectoryUnusable", "/volume/registry", "symbolic link")
	if r.container() != nil {
		t.Error("a container was made")
	}
}
