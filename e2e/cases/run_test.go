package cases

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// TestCases runs every case against one controller, each on machines, disks and an
// instance of its own.
func TestCases(t *testing.T) {
	cases, err := load()
	if err != nil {
		t.Fatal(err)
	}
	s := sitetest.Open(t, "../../bin", lab.KindVM, lab.KindNspawn)
	address := lab.Gateway
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		address = address.Next()
		own := address
		t.Run(name, func(t *testing.T) {
			if results.Brief() && c.Suite != "brief" {
				t.Skip("not a case of `make test`: `make test-ci` runs it")
			}
			if !c.alone() {
				t.Parallel() // after all that run alone
			}
			record := results.Begin(t, "disks", name, c.Title)
			if c.Suite == "full" {
				results.LongOnly(t)
			}
			newRun(t, s, name, c, own, record).steps()
		})
	}
}

// run is one case while it runs.
type run struct {
	t       *testing.T
	site    *site.Site
	record  *results.Case
	c       Case
	address netip.Addr // of the machine
	storage site.Storage
	node    lab.Node // nil before it has booted
	disks   map[string]lab.Disk
	before  map[string]string // for each disk a copy from before the first step
	began   time.Time         // when the present step did
	permits map[string]string // the permit in the journal of each disk's format
	cutOff  bool              // the controller does not hear of the machine
	lost    string            // the server that was replaced
	proxy   *lossyProxy       // between the machine and the controller
}

func newRun(t *testing.T, s *site.Site, name string, c Case, address netip.Addr, record *results.Case) *run {
	t.Helper()
	r := &run{
		t: t, site: s, c: c, address: address, record: record,
		storage: site.Storage{
			Instance: uuid.NewString(),
			Server:   api.Server{ID: uuid.NewString(), Name: name},
			Exports:  c.Exports,
			Options:  c.ExportOptions,
			Package:  "../demo/package",
		},
		disks:   map[string]lab.Disk{},
		before:  map[string]string{},
		permits: map[string]string{},
	}
	// The next case needs a running controller, whichever step this one ends in.
	t.Cleanup(func() {
		if !s.Running() {
			if err := s.Start(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	for _, d := range c.Disks {
		r.makeDisk(d)
	}
	return r
}

// makeDisk makes a disk with what it holds, and tells the topology of it.
func (r *run) makeDisk(d Disk) {
	r.t.Helper()
	id := uuid.NewString()
	if d.Twins != "" {
		id = r.disks[d.Twins].VolumeID[:24] + id[24:]
	}
	disk, err := r.site.Lab.NewDisk(id, d.Size)
	if err != nil {
		r.t.Fatal(err)
	}
	if d.Clones != "" {
		if err := r.disks[d.Clones].Snapshot(r.t.Context(), disk.Path); err != nil {
			r.t.Fatal(err)
		}
	}
	fill(r.t, disk, d.Holds)
	disk.Faults = faultsOf(d.Faults)
	r.disks[d.Name] = disk
	if err := r.keepCopy(d.Name); err != nil {
		r.t.Fatal(err)
	}
	if d.Stray {
		return
	}
	r.storage.Server.VolumeIds = append(r.storage.Server.VolumeIds, disk.VolumeID)
	told := d.Size
	if d.ToldMiB != 0 {
		told = d.ToldMiB << 20
	}
	r.storage.Volumes = append(r.storage.Volumes, site.Volume{Name: d.Name, Disk: disk, MountTo: d.MountTo, SizeBytes: told})
}

func (r *run) steps() {
	for i, step := range r.c.Steps {
		do, ok := families[step.Do]
		if !ok {
			r.t.Fatalf("step %d: no step is called %q", i+1, step.Do)
		}
		r.began = time.Now()
		ctx, cancel := context.WithTimeout(r.t.Context(), stepLimit)
		err := do(r, ctx, step)
		if err == nil && step.Expect != nil {
			err = r.expect(ctx, *step.Expect)
			r.tally(ctx, step.Expect)
		}
		cancel()
		if err != nil {
			r.t.Fatalf("step %d, %s: %v", i+1, step.Do, err)
		}
		r.t.Logf("step %d, %s: %.1f s", i+1, step.Do, time.Since(r.began).Seconds())
	}
}
