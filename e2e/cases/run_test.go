package cases

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestCases runs every case against one controller, each on a machine of its own.
func TestCases(t *testing.T) {
	cases, err := load()
	if err != nil {
		t.Fatal(err)
	}
	s := sitetest.Open(t, "../../bin", lab.KindVM)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			newRun(t, s, name, cases[name]).steps()
			t.Logf("%s (%.1f s)", cases[name].Title, time.Since(started).Seconds())
		})
	}
}

// run is one case while it runs.
type run struct {
	t       *testing.T
	site    *site.Site
	c       Case
	storage site.Storage
	node    lab.Node
	disks   map[string]lab.Disk
	before  map[string]string // digest of each disk before the first step
	began   time.Time         // when the present step did
}

func newRun(t *testing.T, s *site.Site, name string, c Case) *run {
	t.Helper()
	r := &run{
		t: t, site: s, c: c,
		storage: site.Storage{
			Instance: uuid.NewString(),
			Server:   api.Server{ID: uuid.NewString(), Name: name},
			Exports:  c.Exports,
		},
		disks:  map[string]lab.Disk{},
		before: map[string]string{},
	}
	for _, d := range c.Disks {
		disk, err := s.Lab.NewDisk(uuid.NewString(), d.MiB<<20)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, disk, d.Holds)
		r.disks[d.Name] = disk
		r.before[d.Name] = digest(t, disk.Path)
		r.storage.Server.VolumeIds = append(r.storage.Server.VolumeIds, disk.VolumeID)
		told := d.ToldMiB
		if told == 0 {
			told = d.MiB
		}
		r.storage.Volumes = append(r.storage.Volumes, site.Volume{Name: d.Name, Disk: disk, MountTo: d.MountTo, SizeBytes: told << 20})
	}
	return r
}

// boot makes the VM, tells the controller of it, and injects the agent.
func (r *run) boot(ctx context.Context) error {
	spec := lab.Spec{Name: r.storage.Server.Name, ServerID: r.storage.Server.ID}
	for _, d := range r.c.Disks {
		spec.Disks = append(spec.Disks, r.disks[d.Name])
	}
	node, err := r.site.Lab.VM(ctx, spec)
	if err != nil {
		return err
	}
	r.node = node
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.showMachine()
		}
		if err := node.Destroy(); err != nil {
			r.t.Error(err)
		}
	})
	return r.site.Inhabit(ctx, &r.storage, node, r.t.TempDir())
}

// showMachine logs what helps to understand a failure.
func (r *run) showMachine() {
	for _, look := range [][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60"},
		{"findmnt"}, {"exportfs", "-s"},
	} {
		out, err := r.node.Exec(context.WithoutCancel(r.t.Context()), look...)
		r.t.Logf("%v: %v\n%s", look, err, out)
	}
}
