package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const before, after = 16 << 20, 64 << 20

// inUse is a machine whose volume is formatted, mounted and served.
func inUse(t *testing.T) *rig {
	r := machine(t, hosttest.Disk(volume, before))
	r.told(before)
	r.expect(mounted, served)
	r.m.Trace = nil
	return r
}

// told is the size in the document.
func (r *rig) told(size int64) { r.doc.Storage.Volumes[0].SizeBytes = size }

func (r *rig) extended(size int64) { r.m.On(volume).Size = size }

// has compares the size of the filesystem, and expects that it was never unmounted.
func (r *rig) has(size int64) {
	r.t.Helper()
	if got := r.m.On(volume).Ext4Size(); got != size {
		r.t.Errorf("the filesystem has %d bytes, expected %d", got, size)
	}
	if r.did("stop volume.mount") {
		r.t.Errorf("it was unmounted: %s", strings.Join(r.m.Trace, "; "))
	}
	r.untouched()
}

func growthOf(id string) string { return strings.TrimSuffix(journalOf(id), ".json") + ".growth.json" }

func TestAnExtendedVolumeGrowsWhileItIsMounted(t *testing.T) {
	r := inUse(t)
	r.extended(after)
	report := r.expect("False SizeMismatch", served)
	r.says(report, api.ConditionVolumesMounted, "has 67108864 bytes, expected 16777216", "send it")
	r.has(before)
	r.idle()

	r.told(after)
	planned := r.engine.Converge(t.Context(), r.doc, converge.Options{DryRun: true})
	r.says(planned, api.ConditionVolumesMounted, "grow the filesystem at /volume from 16777216 to 67108864 bytes")
	r.has(before)

	report = r.expect(mounted, served)
	r.says(report, api.ConditionVolumesMounted, "mounted: /volume (grown from 16777216 to 67108864 bytes)")
	r.has(after)
	journal, grows := "write "+growthOf(volume), "resize2fs /dev/disk/by-id/virtio-4a0d9f3e-1b2c-4d5e-8"
	growing := strings.TrimSuffix(journalOf(volume), ".json") + ".growing"
	if want := []string{journal, "write " + growing, grows, "resize2fs: add the rest to" + strings.TrimPrefix(grows, "resize2fs"), "remove " + growing, journal}; !slices.Equal(r.m.Trace, want) {
		t.Errorf("did %q, expected %q", r.m.Trace, want)
	}
	r.idle()
	r.restart()
	r.says(r.expect(mounted, served), api.ConditionVolumesMounted, "grown from")
	r.idle()
}

// A volume that was extended while no server had it comes to a new server, which has no
// journal of it.
func TestAVolumeThatWasExtendedElsewhereIsMountedAndGrows(t *testing.T) {
	for _, told := range []int64{after, 0} {
		r := machine(t, hosttest.Disk(volume, before, hosttest.Ext4(assigned)))
		r.extended(after)
		r.told(told)
		r.says(r.expect(mounted, served), api.ConditionVolumesMounted, "grown from 16777216 to 67108864")
		r.has(after)
		r.idle()
	}
}

// A volume whose topology lags behind is served meanwhile.
func TestALargerDiskIsMountedBeforeItsSizeIsKnown(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, before, hosttest.Ext4(assigned)))
	r.extended(after)
	r.told(before)
	r.expect("False SizeMismatch", served)
	r.has(before)
}

func TestARestThatNoFilesystemUsesIsNoRoom(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))
	r.extended(gib + 8<<20)
	r.told(gib + 8<<20)
	r.expect(mounted, served)
	r.has(gib)
	r.idle()
}

func TestADiskThatShrankIsNotChanged(t *testing.T) {
	const half = before / 2
	message := []string{"has 8388608 bytes, expected at least 16777216", "has shrunk", "give the volume its size back"}
	lags := []string{"has 16777216 bytes, expected 67108864", "this server does not know yet"}
	cases := map[string]struct {
		size, told int64
		says       []string
	}{
		"as the document says":          {half, half, message},
		"the document knows the volume": {half, before, message},
		"the document has no size":      {half, 0, message},
		"only behind the document":      {before, after, lags},
	}
	for name, c := range cases {
		t.Run(name+", mounted", func(t *testing.T) {
			r := inUse(t)
			r.extended(c.size)
			r.told(c.told)
			r.says(r.expect("False SizeMismatch", served), api.ConditionVolumesMounted, c.says...)
			r.has(before)
			r.idle()
		})
		t.Run(name+", not mounted", func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, before, hosttest.Ext4(assigned)))
			r.extended(c.size)
			r.told(c.told)
			r.says(r.expect("False SizeMismatch", notYet), api.ConditionVolumesMounted, c.says...)
			r.has(before)
			r.idle()
		})
	}
}

// The journal of a format that was cut off outlives an extension, and an operator decides.
func TestAVolumeThatIsExtendedDuringItsFormat(t *testing.T) {
	for told, want := range map[int64]string{8 << 20: "False SizeMismatch", after: "False FormatInterrupted"} {
		r := killedMkfs(t)
		journal := r.file(journalOf(volume))
		r.extended(after)
		r.told(told)
		r.m.Trace = nil
		r.says(r.expect(want, notYet), api.ConditionVolumesMounted, "hitchctl volume reformat "+volume, "67108864")
		r.untouched()
		if r.did("resize2fs") || r.file(journalOf(volume)) != journal {
			t.Errorf("told %d bytes: %q; the journal was\n%s and is\n%s", told, r.m.Trace, journal, r.file(journalOf(volume)))
		}
	}
}

// It was mounted by hand before the journal knew of its end.
func TestAnUnfinishedFormatInUseDoesNotGrow(t *testing.T) {
	r := inUse(t)
	f := r.m.Files[journalOf(volume)]
	f.Content = strings.Replace(f.Content, `"reported"`, `"started"`, 1)
	r.m.Files[journalOf(volume)] = f
	r.extended(after)
	r.told(after)
	r.says(r.expect("False FormatInterrupted", served), api.ConditionVolumesMounted, "resize2fs /dev/disk/by-id/")
	r.has(before)
	if got := r.file(journalOf(volume)); got != f.Content {
		t.Errorf("the journal is %s", got)
	}
}

// Between the plan and the action anything may happen.
func TestTheDiskIsReadAgainBeforeItGrows(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"it shrank":      func(r *rig) { r.extended(before / 2) },
		"it grew again":  func(r *rig) { r.extended(2 * after) },
		"it was swapped": func(r *rig) { hosttest.Ext4("11111111-2222-4333-8444-555555555555")(r.m.On(volume)) },
		"a format was begun": func(r *rig) {
			f := r.m.Files[journalOf(volume)]
			f.Content = strings.Replace(f.Content, `"reported"`, `"started"`, 1)
			r.m.Files[journalOf(volume)] = f
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := inUse(t)
			r.extended(after)
			r.told(after)
			plan, err := r.steps()[0].Plan(t.Context(), r.doc)
			if err != nil || len(plan.Actions) != 1 {
				t.Fatalf("planned %+v, %v", plan.Actions, err)
			}
			change(r)
			if err := plan.Actions[0].Do(t.Context()); err == nil || r.did("resize2fs") {
				t.Errorf("%v: %q", err, r.m.Trace)
			}
		})
	}
}

// The machine stops before each change of a growth: the process alone, or the machine.
func TestCrashAnywhereInAGrowth(t *testing.T) {
	for _, detached := range []bool{false, true} {
		for _, reboot := range []bool{false, true} {
			for n := 1; ; n++ {
				r := inUse(t)
				if detached {
					r.m.Reboot()
				}
				r.extended(after)
				r.told(after)
				if !r.crashing(n) {
					if n < 7 {
						t.Errorf("only %d places to crash at", n)
					}
					break
				}
				if reboot {
					r.m.Reboot()
				}
				r.restart()
				report := r.expect(mounted, served)
				r.says(report, api.ConditionVolumesMounted, "(grown from 16777216 to 67108864 bytes)")
				if reboot {
					r.m.Trace = nil // it may have been mounted twice, see below
				}
				r.has(after)
				r.idle()
				if t.Failed() {
					t.Fatalf("detached %v, reboot %v, crashed before change %d: %s", detached, reboot, n, strings.Join(r.m.Trace, "; "))
				}
			}
		}
	}
}

// Linux does not grow a filesystem whose journal has changed its size in this mount, and
// has a bug there. Another mount helps; nothing else is unmounted for a growth.
func TestAGrowthThatWasCutOffWithItsMachine(t *testing.T) {
	t.Run("of this server", func(t *testing.T) {
		r := inUse(t)
		r.extended(after)
		r.told(after)
		r.crashing(4) // in resize2fs
		r.m.Reboot()
		if mounts, err := r.m.Host().Mounts.List(); err != nil || len(mounts) > 0 {
			t.Errorf("systemd has mounted it: %v, %v", mounts, err)
		}
		r.restart()
		r.expect(mounted, served)
		r.m.Reboot()
		if mounts, err := r.m.Host().Mounts.List(); err != nil || len(mounts) != 1 {
			t.Errorf("systemd does not mount it any more: %v, %v", mounts, err)
		}
		r.restart()
		r.expect(mounted, served)
		r.idle()
	})
	t.Run("of another server", func(t *testing.T) {
		r := machine(t, hosttest.Disk(volume, before, hosttest.Ext4(assigned), hosttest.HalfGrown(after)))
		r.told(after)
		r.expect(mounted, served)
		if got := r.m.On(volume).Ext4Size(); got != after {
			t.Errorf("the filesystem has %d bytes", got)
		}
		r.idle()
	})
	t.Run("the process alone", func(t *testing.T) {
		r := inUse(t)
		r.extended(after)
		r.told(after)
		r.crashing(4)
		r.restart()
		r.expect(mounted, served)
		r.has(after)
	})
}

func TestAGrowthThatFailsIsTriedAgain(t *testing.T) {
	for _, program := range []string{"resize2fs", "resize2fs: add the rest to", "write"} {
		t.Run(program, func(t *testing.T) {
			r := inUse(t)
			r.extended(after)
			r.told(after)
			r.m.Fail[program] = errors.New("operation not permitted")
			want := "False GrowFailed"
			if program == "write" {
				want = "Unknown InternalError"
			}
			r.says(r.expect(want, served), api.ConditionVolumesMounted, "operation not permitted")
			delete(r.m.Fail, program)
			r.expect(mounted, served)
			r.has(after)
			r.idle()
		})
	}
}

// A record of a growth that cannot be read costs only what the condition says.
func TestADamagedGrowthRecord(t *testing.T) {
	for _, content := range []string{"{", `{"volumeId": "another"}`, ""} {
		r := inUse(t)
		r.m.Files[growthOf(volume)] = hosttest.FileState{Content: content, Mode: 0o600}
		r.idle()
		r.extended(after)
		r.told(after)
		r.says(r.expect(mounted, served), api.ConditionVolumesMounted, fmt.Sprintf("(grown from %d to %d bytes)", before, after))
	}
}
