package powercut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// victim is a container whose agent is killed. Beside the volume that is being
// formatted it has one that is in use: the first.
type victim struct {
	*life
	count int // of all volumes
}

// newVictim is a container with the agent and a volume in use.
func newVictim(ctx context.Context, l *life) (*victim, error) {
	v := &victim{life: l}
	l.boot.began = time.Now()
	first, err := newVolume(l.site.Lab, 0)
	if err != nil {
		return nil, err
	}
	l.volumes = []*volume{first}
	spec := lab.Spec{Name: l.storage.Server.Name, ServerID: l.storage.Server.ID, Address: lab.Gateway.Next(), Disks: []lab.Disk{first.disk}}
	if spec.UserData, err = l.announceAt(ctx, spec.Address); err != nil {
		return nil, err
	}
	if l.node, err = l.site.Lab.Nspawn(ctx, spec); err != nil {
		return nil, err
	}
	// Its kernel serves no NFS, so there is no point in installing the server's package.
	if _, err := l.node.Exec(ctx, "truncate", "-s", "0", "/etc/apt/sources.list"); err != nil {
		return nil, err
	}
	if err := l.converge(ctx); err != nil {
		return nil, err
	}
	// The state after a kill is read before the agent comes back.
	const byHand = "/etc/systemd/system/nodehitch-agent.service.d/by-hand.conf"
	if err := l.node.Push(ctx, byHand, 0o644, []byte("[Service]\nRestart=no\n")); err != nil {
		return nil, err
	}
	_, err = l.node.Exec(ctx, "systemctl", "daemon-reload")
	return v, errors.Join(err, l.writePrecious(ctx, first))
}

// recover starts the agent again, wants everything as it should be, and takes the
// volume away.
func (v *victim) recover(ctx context.Context) (lost int64, err error) {
	v.boot.began = time.Now()
	if _, err := v.node.Exec(ctx, "sh", "-c", "systemctl reset-failed nodehitch-agent; systemctl start --no-block nodehitch-agent"); err != nil {
		return 0, err
	}
	if err := v.settle(ctx, &lost); err != nil {
		return lost, err
	}
	done := v.newest()
	v.volumes = v.volumes[:len(v.volumes)-1]
	if _, err := v.announce(ctx); err != nil {
		return lost, err
	}
	if err := v.unmounted(ctx, done); err != nil {
		return lost, err
	}
	if err := v.node.Detach(ctx, done.disk.VolumeID); err != nil {
		return lost, err
	}
	return lost, errors.Join(command(ctx, "e2fsck", "-n", "-f", done.disk.Path), os.Remove(done.disk.Path))
}

// stopped waits until the service, killed, has nothing left that runs.
func (v *victim) stopped(ctx context.Context) error {
	return v.until(ctx, "its service is still there after a kill", func() bool {
		state, err := v.node.Exec(ctx, "systemctl", "show", "-P", "ActiveState", "nodehitch-agent")
		now := strings.TrimSpace(string(state))
		return err == nil && (now == "failed" || now == "inactive")
	})
}

func (v *victim) unmounted(ctx context.Context, gone *volume) error {
	return v.until(ctx, gone.name+" is still mounted, though it belongs to the machine no more", func() bool {
		_, err := v.node.Exec(ctx, "findmnt", "--mountpoint", gone.mountPath())
		return err != nil // it finds nothing
	})
}

func (v *victim) until(ctx context.Context, otherwise string, so func() bool) error {
	limit := time.After(timeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			return errors.New(otherwise)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// agent is the agent's pid on the host, once it is idle.
func (v *victim) agent(ctx context.Context) (int, error) {
	out, err := v.node.Exec(ctx, "systemctl", "show", "-P", "MainPID", "nodehitch-agent")
	if err != nil {
		return 0, err
	}
	inside := strings.TrimSpace(string(out))
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, p := range processes {
		status, _ := os.ReadFile(filepath.Join(p, "status"))
		if !strings.HasPrefix(string(status), "Name:\tnodehitch-agent\n") || !strings.Contains(string(status), "\t"+inside+"\nNSpgid") {
			continue
		}
		who, _ := os.ReadFile(filepath.Join(p, "root/run/cloud-init/instance-data.json"))
		if strings.Contains(string(who), v.node.ServerID()) {
			return strconv.Atoi(filepath.Base(p))
		}
	}
	return 0, fmt.Errorf("no process of the host is the agent, %s in its container", inside)
}
