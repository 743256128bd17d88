package host

import (
	"fmt"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

type mountTable struct{ changes *Changes }

func (m *mountTable) List() ([]Mount, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	mounts := make([]Mount, len(infos))
	for i, info := range infos {
		mounts[i] = Mount{
			Point: info.Mountpoint, Root: info.Root, FSType: info.FSType, Source: info.Source,
			Device:  Number{uint32(info.Major), uint32(info.Minor)},
			Options: strings.Split(info.Options, ","), SuperOptions: strings.Split(info.VFSOptions, ","),
		}
	}
	return mounts, nil
}

func (m *mountTable) Detach(point string) error {
	m.changes.Directory()
	if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("detaching %s: %w", point, err)
	}
	return nil
}
