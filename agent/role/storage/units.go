package storage

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/nodehitch/nodehitch/shared/api"
)

// The systemd units of the storage role.
const (
	unitDirectory = "/etc/systemd/system"
	nfsServer     = "nfs-server.service"
	dropIn        = "nodehitch.conf"
	header        = "# Written by nodehitch-agent, which repairs it: changes made here are lost.\n"
	deviceTimeout = "30s"
)

// file is a file with its desired content.
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
// nofail: the boot neither waits for the disk nor fails without it. WantedBy
// multi-user.target: the mount is tried at boot, for at most the timeout in the device
// unit's drop-in (without udev that unit is not used). errors=remount-ro: a damaged
// filesystem is not damaged further. Before: the NFS server starts after the mount and
// stops before the unmount. It does not require the mount, so a missing volume does not
// stop the others from being served.
// ConditionPathExists: a filesystem whose growth was cut off is left to the agent.
func mountFiles(v *api.StorageVolume, device, growing string) []file {
	mount := header + fmt.Sprintf(`[Unit]
Description=Cinder volume %s (nodehitch)
Before=%s
ConditionPathExists=!%s

[Mount]
What=%s
Where=%s
Type=ext4
Options=nofail,nodev,nosuid,errors=remount-ro
DirectoryMode=0000
TimeoutSec=600

[Install]
WantedBy=multi-user.target
`, v.VolumeID, nfsServer, specifiers(growing), specifiers(device), specifiers(v.MountPath))
	wait := header + "[Unit]\nJobRunningTimeoutSec=" + deviceTimeout + "\n"
	return []file{{mountUnitPath(v.MountPath), mount}, {deviceDropInPath(device), wait}}
}

// specifiers escapes systemd's specifiers.
func specifiers(s string) string { return strings.ReplaceAll(s, "%", "%%") }
