package lab

import (
	"context"
	"path/filepath"
)

// fileNode never flushes: only a crash of the host could tell the difference.
func fileNode(path string) map[string]any {
	return map[string]any{"driver": "file", "filename": path, "cache": map[string]bool{"no-flush": true}}
}

// bottom is the node at the bottom of a disk: its file and, if the disk asks for them, what
// slows it and what logs the writes that arrive there.
func bottom(ctx context.Context, r *vmRun, d Disk, path string) (map[string]any, error) {
	node := fileNode(path)
	if d.Shared {
		node["locking"] = "off"
	}
	if d.WriteLog != "" {
		log, err := filepath.Abs(d.WriteLog)
		if err != nil {
			return nil, err
		}
		// The log's head is written after each entry, so that it is whole whenever
		// the machine ends.
		node = map[string]any{"driver": "blklogwrites", "file": node, "log": fileNode(log), "log-super-update-interval": 1}
	}
	if d.BytesPerSecond == 0 {
		return node, nil
	}
	group := "slow-" + newID()
	limits := map[string]int64{"bps-write": d.BytesPerSecond}
	err := r.monitor.Do(ctx, "object-add", map[string]any{"qom-type": "throttle-group", "id": group, "limits": limits}, nil)
	return map[string]any{"driver": "throttle", "throttle-group": group, "file": node}, err
}
