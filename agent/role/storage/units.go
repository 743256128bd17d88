package storage

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The files in which the storage role keeps what systemd has to know.
const (
	unitDirectory = "/etc/systemd/system"
	nfsServer     = "nfs-server.service"
	dropIn        = "nodehitch.conf"
	header        = "# Written by nodehitch-agent, which repairs it: changes made here are lost.\n"
	deviceTimeout = "30s"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

// file is a file as it should be.
type file struct {
	path    string
	content string
}

func mountUnit(mountPath string) string { return unit.UnitNamePathEscape(mountPath) + ".mount" }

func mountUnitPath(mountPath string) string {
	return filepath.Join(unitDirectory, mountUnit(mountPath))
}

func deviceDropInPath(device string) string {
	return filepath.Join(unitDirectory, unit.UnitNamePathEscape(device)+".device.d", dropIn)
}

// mountFiles are the files for one volume.
//
// nofail: the boot does not wait for the disk with the local filesystems, nor fails
// without it. multi-user.target wants it, so that it is tried at boot, and that is
// bounded by the device unit's drop-in (where there is no udev, that unit is never
// asked for). errors=remount-ro: what damages itself further is worth more stopped.
// Before: the NFS server starts after the mount and stops before it is taken away, and
// requires it not: one volume that is away does not stop the others from being served.
func mountFiles(v *api.StorageVolume, device string) []file {
	mount := header + fmt.Sprintf(`[Unit]
Description=Cinder volume %s (nodehitch)
Before=%s

[Mount]
What=%s
Where=%s
Type=ext4
Options=nofail,nodev,nosuid,errors=remount-ro
DirectoryMode=0000
TimeoutSec=600

[Install]
WantedBy=multi-user.target
`, v.VolumeID, nfsServer, specifiers(device), specifiers(v.MountPath))
	wait := header + "[Unit]\nJobRunningTimeoutSec=" + deviceTimeout + "\n"
	return []file{{mountUnitPath(v.MountPath), mount}, {deviceDropInPath(device), wait}}
}

// specifiers escapes what systemd would expand.
func specifiers(s string) string { return strings.ReplaceAll(s, "%", "%%") }
