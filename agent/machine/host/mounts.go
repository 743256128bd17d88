package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

type mountTable struct {
	changes *Changes
	proc    string
}

func (m *mountTable) List() ([]Mount, error) {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return table(infos), nil
}

func (m *mountTable) OfProcess(pid int) ([]Mount, error) {
	f, err := os.Open(filepath.Join(m.proc, strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("reading the mount table of process %d: %w", pid, err)
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the mount table of process %d: %w", pid, err)
	}
	return table(infos), nil
}

func table(infos []*mountinfo.Info) []Mount {
	mounts := make([]Mount, len(infos))
	for i, info := range infos {
		mounts[i] = Mount{
			Point: info.Mountpoint, Root: info.Root, FSType: info.FSType, Source: info.Source,
			Device:  Number{uint32(info.Major), uint32(info.Minor)},
			Options: strings.Split(info.Options, ","), SuperOptions: strings.Split(info.VFSOptions, ","),
		}
	}
	return mounts
}

func (m *mountTable) Detach(point string) error {
	m.changes.Directory()
	if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("detaching %s: %w", point, err)
	}
	return nil
}
