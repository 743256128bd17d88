package cases

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What happens to disks, and what the operator says about them.
var _ = add(map[string]stepFunc{
	"attach":    func(r *run, ctx context.Context, s Step) error { return r.node.Attach(ctx, r.disks[s.Disk]) },
	"detach":    func(r *run, ctx context.Context, s Step) error { return r.node.Detach(ctx, r.disks[s.Disk].VolumeID) },
	"blank":     (*run).blank,
	"extend":    (*run).extend,
	"reformat":  (*run).reformat,
	"adopt":     (*run).adopt,
	"tell-size": (*run).tellSize,
})

// tellSize sets the size in the topology to that of the disk.
func (r *run) tellSize(ctx context.Context, s Step) error {
	i := slices.IndexFunc(r.storage.Volumes, func(v site.Volume) bool { return v.Name == s.Disk })
	info, err := os.Stat(r.disks[s.Disk].Path)
	if err != nil {
		return err
	}
	r.storage.Volumes[i].SizeBytes = info.Size()
	return r.announce(ctx)
}

// extend makes a disk larger, as Cinder does.
func (r *run) extend(ctx context.Context, s Step) error {
	return r.node.Extend(ctx, r.disks[s.Disk].VolumeID, s.MiB<<20)
}

// spell replaces, in text of a case, DISK(name) by the path of a disk by its id on
// the machine, ID(name) by its volume's id and ASSIGNED(name) by the filesystem
// UUID that the controller assigns to that.
func (r *run) spell(text string) string {
	for name, disk := range r.disks {
		text = strings.NewReplacer(
			"DISK("+name+")", disk.Link(),
			"ID("+name+")", disk.VolumeID,
			"ASSIGNED("+name+")", api.FilesystemUUID(disk.VolumeID),
		).Replace(text)
	}
	return text
}

// blank makes a disk as new; neither agent nor controller is told.
func (r *run) blank(_ context.Context, s Step) error {
	path := r.disks[s.Disk].Path
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Truncate(path, 0); err != nil {
		return err
	}
	return os.Truncate(path, info.Size())
}

func (r *run) reformat(ctx context.Context, s Step) error {
	id := r.disks[s.Disk].VolumeID
	_, err := r.site.Hitchctl(ctx, "volume", "reformat", id, "--volume-id", id)
	return err
}

// adopt takes over whatever UUID the disk's filesystem has.
func (r *run) adopt(ctx context.Context, s Step) error {
	disk := r.disks[s.Disk]
	uuid, err := r.node.Exec(ctx, "blkid", "-p", "-s", "UUID", "-o", "value", disk.Link())
	if err != nil {
		return err
	}
	_, err = r.site.Hitchctl(ctx, "volume", "adopt", disk.VolumeID, "--filesystem-uuid", strings.TrimSpace(string(uuid)))
	return err
}
