// Command footprint prints what the agent costs as a storage node: the size of
// its binary, its memory when idle, and the time and CPU of a convergence that
// has nothing to do, beside the distribution's own tools asking the same
// questions on the same machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

const document = "/var/lib/nodehitch/agent/last-known-good.json"

func main() {
	if missing := lab.Missing(lab.KindVM); len(missing) > 0 {
		fmt.Println("footprint: cannot run here:", strings.Join(missing, "; "))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := measure(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context) (err error) {
	for _, arch := range []string{"amd64", "arm64"} {
		info, err := os.Stat("bin/nodehitch-agent-" + arch)
		if err != nil {
			return err
		}
		fmt.Printf("agent binary, %s: %.1f MB\n", arch, float64(info.Size())/1e6)
	}
	l, err := lab.Open(ctx, lab.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	node, err := readyNode(ctx, l)
	if err != nil {
		return err
	}
	rss, err := node.Exec(ctx, "sh", "-c", "grep -E 'VmRSS|VmHWM|RssAnon' /proc/$(systemctl show -p MainPID --value nodehitch-agent)/status")
	if err != nil {
		return err
	}
	fmt.Printf("agent memory as a storage node, converged and polling:\n%s", rss)

	if _, err := node.Exec(ctx, "systemctl", "stop", "nodehitch-agent"); err != nil {
		return err
	}
	noop, err := timed(ctx, node, "nodehitch-agent", "apply", "--filename", document)
	if err != nil {
		return err
	}
	tools, err := timed(ctx, node, "sh", "-c", "findmnt -n /volume; blkid -p $(findmnt -no SOURCE /volume); exportfs -s; systemctl is-active nfs-server")
	if err != nil {
		return err
	}
	fmt.Printf("convergence with nothing to do:         %6.2f s, CPU %6.2f s (as a process of its own)\n", noop.wall, noop.cpu)
	fmt.Printf("findmnt, blkid, exportfs, systemctl:    %6.2f s, CPU %6.2f s (the same questions asked by hand)\n", tools.wall, tools.cpu)
	fmt.Printf("ratio: %.1f in time, %.1f in CPU\n", noop.wall/tools.wall, noop.cpu/tools.cpu)
	return nil
}

// readyNode is a storage VM that has converged.
func readyNode(ctx context.Context, l *lab.Lab) (lab.Node, error) {
	s, err := site.Open(ctx, l, "bin")
	if err != nil {
		return nil, err
	}
	disk, err := l.NewDisk(uuid.NewString(), 256<<20)
	if err != nil {
		return nil, err
	}
	st := site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "storage", VolumeIds: []string{disk.VolumeID}},
		Volumes:  []site.Volume{{Name: "data", Disk: disk, MountTo: "/volume", SizeBytes: 256 << 20}},
		Exports:  []string{"/volume/nfs/pv1", "/volume/nfs/pv2", "/volume/nfs/pv3"},
	}
	node, err := l.VM(ctx, lab.Spec{Name: "storage", ServerID: st.Server.ID, Disks: []lab.Disk{disk}})
	if err != nil {
		return nil, err
	}
	if err := s.Inhabit(ctx, &st, node, l.Dir()); err != nil {
		return nil, err
	}
	_, err = s.Hitchctl(ctx, "wait", "node", st.Server.ID, "--for", "Ready", "--timeout", "3m")
	return node, err
}

// cost is the mean of several runs, in seconds.
type cost struct{ wall, cpu float64 }

// timed runs a program ten times in one shell of the machine, whose own clock
// and CPU account say what a run took.
func timed(ctx context.Context, node lab.Node, argv ...string) (cost, error) {
	const script = `TIMEFORMAT='%R %U %S'; time (for i in 1 2 3 4 5 6 7 8 9 10; do "$@" >/dev/null || exit 1; done)`
	out, err := node.Exec(ctx, append([]string{"bash", "-c", "{ " + script + "; } 2>&1", "timed"}, argv...)...)
	if err != nil {
		return cost{}, err
	}
	var wall, user, system float64
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if _, err := fmt.Sscan(lines[len(lines)-1], &wall, &user, &system); err != nil {
		return cost{}, fmt.Errorf("reading the times of %v: %w: %s", argv, err, out)
	}
	return cost{wall / 10, (user + system) / 10}, nil
}
