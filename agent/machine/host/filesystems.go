package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

func (d *disks) Identify(ctx context.Context, v Device) (map[string]string, error) {
	// blkid's exit codes: 2 = nothing is known about this device, 8 = ambivalent.
	const nothing, ambivalent = 2, 8
	result, err := d.onDevice(ctx, v, identifyCommand())
	switch {
	case result.Code == nothing && strings.TrimSpace(result.Stdout+result.Stderr) == "":
		return map[string]string{}, nil
	case result.Code == ambivalent:
		return nil, &AmbivalentError{Disk: v.Disk()}
	case err != nil:
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(result.Stdout) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key != "DEVNAME" {
			found[key] = value
		}
	}
	return found, nil
}

func (d *disks) Signatures(ctx context.Context, v Device) ([]string, error) {
	result, err := d.onDevice(ctx, v, signaturesCommand())
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(result.Stdout) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// offset, UUID, label, type
		fields := strings.Split(line, ",")
		found = append(found, fields[len(fields)-1]+" at "+fields[0])
	}
	if words := strings.TrimSpace(result.Stderr); words != "" && len(found) == 0 {
		return nil, fmt.Errorf("wipefs on %s: %s", v.Disk().Path, words)
	}
	return found, nil
}

func (d *disks) Erase(ctx context.Context, v Device) error {
	if err := v.Same(); err != nil {
		return err
	}
	_, err := d.onDevice(ctx, v, eraseCommand())
	return err
}

func (d *disks) MakeExt4(ctx context.Context, v Device, uuid string) error {
	if err := v.Same(); err != nil {
		return err
	}
	if _, err := d.onDevice(ctx, v, mkfsCommand(uuid)); err != nil {
		return err
	}
	opened, ok := v.(*device)
	if !ok {
		return errNotOurs
	}
	if err := opened.flush(); err != nil {
		return err
	}
	return v.Same()
}

func (d *disks) CheckExt4(ctx context.Context, v Device) error {
	opened, ok := v.(*device)
	if !ok {
		return errNotOurs
	}
	if err := opened.flush(); err != nil {
		return err
	}
	_, err := d.onDevice(ctx, v, checkCommand())
	return err
}

// GrowExt4 keeps the mount point open, so that nobody can unmount the filesystem:
// resize2fs would work on the disk itself.
func (d *disks) GrowExt4(ctx context.Context, v Device, point string) error {
	dir, err := enter(point, v.Disk().Number)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := v.Same(); err != nil {
		return err
	}
	if _, err := d.onDevice(ctx, v, growCommand()); err != nil {
		return err
	}
	return v.Same()
}

var errNotOurs = errors.New("the device is not one of this host's")

// onDevice runs a command on the disk that is open.
func (d *disks) onDevice(ctx context.Context, v Device, c Command) (Result, error) {
	opened, ok := v.(*device)
	if !ok {
		return Result{Code: -1}, errNotOurs
	}
	d.run.Log.Debug("device of the next command", "argv", c.Argv, "path", opened.disk.Path, "node", opened.disk.Node)
	c.Files = []*os.File{opened.f}
	result, err := d.run.Run(ctx, c)
	if err != nil {
		err = fmt.Errorf("%s (%s): %w", opened.disk.Path, opened.disk.Node, err)
	}
	return result, err
}
