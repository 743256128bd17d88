package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// left describes the state that a kill has left; an error says that it must not be so.
func (v *victim) left(ctx context.Context) (string, error) {
	newest := v.newest()
	if err := v.stopped(ctx); err != nil {
		return "", err
	}
	known, err := client.Read[api.Volume](v.api.GetVolume(ctx, newest.disk.VolumeID, nil))
	if err != nil {
		return "", err
	}
	if err := command(ctx, "sync", newest.disk.Path); err != nil {
		return "", err
	}
	super, err := newest.superblock()
	if err != nil {
		return "", err
	}
	blank, err := isBlank(newest.disk.Path)
	if err != nil {
		return "", err
	}
	journal, disk := v.journalPhase(ctx, newest), "something"
	switch {
	case blank:
		disk = "blank"
	case super.uuid == newest.uuid() && command(ctx, "e2fsck", "-n", "-f", newest.disk.Path) == nil:
		disk = "complete"
	}
	written := fmt.Sprintf("journal %s, permit %s, disk %s", journal, known.PermitState, disk)
	switch {
	case disk != "blank" && (journal == "none" || journal == "permitted" || known.PermitState != api.PermitStarted && known.PermitState != api.PermitFormatted):
		return written, errors.New("the disk was written to too early: " + written)
	case disk != "complete" && (journal == "formatted" || journal == "reported" || known.PermitState == api.PermitFormatted):
		if super.mounts == 0 { // else its own journal has yet to be replayed
			return written, errors.New("it is not the filesystem that is reported: " + written)
		}
	}
	if journal == "formatted" || journal == "reported" {
		newest.format = super.format // from now on it must stay the same
	}
	return written, nil
}

// isBlank: the file has no data at all. What was never written to is a hole.
func isBlank(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = unix.Seek(int(f.Fd()), 0, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return true, nil
	}
	return false, err
}

// journalPhase is that of the agent's record, "none" if there is none.
func (v *victim) journalPhase(ctx context.Context, of *volume) string {
	text, err := v.node.Pull(ctx, of.journal())
	if err != nil {
		return "none"
	}
	var record struct{ Phase string }
	if err := json.Unmarshal(text, &record); err != nil {
		return "damaged"
	}
	return record.Phase
}
