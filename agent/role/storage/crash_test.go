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

// crashing converges until the machine stops before its n-th change or question;
// false if it did not come that far.
func (r *rig) crashing(n int) (crashed bool) {
	r.m.CrashAt = n
	r.permits.crash = func(question string) {
		if r.m.CrashAt > 0 {
			if r.m.CrashAt--; r.m.CrashAt == 0 {
				panic(hosttest.Crash{Before: question})
			}
		}
	}
	defer func() {
		r.m.CrashAt, r.permits.crash = 0, nil
		if v := recover(); v != nil {
			if _, ok := v.(hosttest.Crash); !ok {
				panic(v)
			}
			crashed = true
		}
	}()
	for _, step := range r.steps() {
		plan, err := step.Plan(r.t.Context(), r.doc)
		failed := map[string]bool{}
		var waiting *converge.Waiting
		var final *converge.Terminal
		if err != nil && !errors.As(err, &waiting) && !errors.As(err, &final) {
			r.t.Fatalf("planning: %v", err)
		}
		for _, a := range plan.Actions {
			if !failed[a.Group] && a.Do(r.t.Context()) != nil {
				failed[a.Group] = true
			}
		}
	}
	return false
}

// small is a machine with a blank disk that is soon read.
func small(t *testing.T) *rig {
	r := machine(t, hosttest.Disk(volume, 8<<20))
	r.doc.Storage.Volumes[0].SizeBytes = 8 << 20
	return r
}

// TestCrashAnywhere stops the machine before each of its changes and questions,
// starts it again (the process alone, or the whole machine), and wants the same end
// as without a crash, with one permit.
func TestCrashAnywhere(t *testing.T) {
	for _, reboot := range []bool{false, true} {
		for n := 1; n < 200; n++ {
			crashed := true
			t.Run(fmt.Sprintf("reboot %v, before change %d", reboot, n), func(t *testing.T) {
				r := small(t)
				if crashed = r.crashing(n); !crashed {
					return
				}
				if reboot {
					r.m.Reboot()
				}
				r.restart()
				r.expect(mounted, served)
				r.idle()
				if got := r.permits.state[volume]; got != api.FormatFormatted {
					t.Errorf("the controller thinks that the format is %q", got)
				}
				if got := r.m.On(volume).Tags["UUID"]; got != assigned {
					t.Errorf("filesystem %q", got)
				}
			})
			if !crashed {
				if n < 20 {
					t.Errorf("only %d places to crash at", n)
				}
				break
			}
		}
	}
}

// TestCrashAroundARemoval stops the machine anywhere, before the volume is there or
// while it is taken away, and then wants it away.
func TestCrashAroundARemoval(t *testing.T) {
	away := func(r *rig) {
		r.doc.Storage.Volumes, r.doc.Storage.Exports = []api.StorageVolume{}, []api.StorageExport{}
	}
	situations := map[string]func(*rig, int) bool{
		"on its way in": func(r *rig, n int) bool {
			crashed := r.crashing(n)
			away(r)
			return crashed
		},
		"on its way out": func(r *rig, n int) bool {
			r.expect(mounted, served)
			away(r)
			return r.crashing(n)
		},
	}
	for name, until := range situations {
		for _, reboot := range []bool{false, true} {
			for n := 1; n < 200; n++ {
				r := small(t)
				if !until(r, n) {
					if n < 8 {
						t.Errorf("%s: only %d places to crash at", name, n)
					}
					break
				}
				if reboot {
					r.m.Reboot()
				}
				r.restart()
				r.converge()
				r.idle()
				report := r.expect("True Removed", "True Removed")
				mounts, err := r.m.Host().Mounts.List()
				if err != nil || len(mounts) > 0 || r.file("/etc/systemd/system/volume.mount") != "" {
					t.Errorf("it is not away: %v, %v", mounts, err)
				}
				if u := r.m.Units["nfs-server.service"]; u != nil && (u.Active || u.Enabled) {
					t.Errorf("the NFS server, which was not there before, is %+v", u)
				}
				if t.Failed() {
					t.Fatalf("%s, reboot %v, crashed before change %d: %+v", name, reboot, n, report.Conditions)
				}
			}
		}
	}
}

// TestTwoCrashes stops it once in the format and once anywhere in what follows.
func TestTwoCrashes(t *testing.T) {
	for first := 3; first < 11; first++ {
		for second := 1; second < 14; second++ {
			r := small(t)
			r.crashing(first)
			r.restart()
			r.crashing(second)
			r.m.Reboot()
			r.restart()
			r.expect(mounted, served)
			if t.Failed() {
				t.Fatalf("crashed before change %d, then before change %d", first, second)
			}
		}
	}
}

// killedMkfs is a machine whose mkfs was killed.
func killedMkfs(t *testing.T) *rig {
	for n := 1; n < 200; n++ {
		r := small(t)
		if !r.crashing(n) {
			t.Fatal("mkfs never ran")
		}
		if strings.Contains(r.file(journalOf(volume)), `"started"`) && r.did("mkfs") {
			r.restart()
			return r
		}
	}
	t.Fatal("mkfs never ran")
	return nil
}

func TestKilledFormatIsResumedOnlyUnderItsPermit(t *testing.T) {
	t.Run("permit stands", func(t *testing.T) {
		r := killedMkfs(t)
		r.expect(mounted, served)
		if got := strings.Join(r.permits.log, ", "); got != "wanted with blank check, started, started, formatted" {
			t.Errorf("format exchange: %s", got)
		}
	})
	refusals := map[string]struct {
		err  error
		want string
	}{
		"no controller": {errAway, "False NoPermit"},
		"interrupted":   {converge.Fail(api.ReasonFormatInterrupted, "its server was replaced"), "False FormatInterrupted"},
		"spent":         {converge.Wait(api.ReasonNoPermit, "formatted already"), "False FormatInterrupted"},
	}
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			r := killedMkfs(t)
			r.permits.refuse = c.err
			r.m.Trace = nil
			r.expect(c.want, notYet)
			r.untouched()
			if slices.Contains(r.permits.log, "wanted: refused") {
				t.Errorf("asked for another permit, which only an operator's word is worth: %v", r.permits.log)
			}
		})
	}
}

// A journal must not outlive what it describes: the disk was used since.
func TestOldJournalDoesNotFormatWhatCameLater(t *testing.T) {
	later := map[string]struct {
		change func(*rig)
		want   string
	}{
		"ours, in use since": {func(r *rig) { hosttest.Ext4(assigned)(r.m.On(volume)) }, mounted},
		"another ext4": {func(r *rig) {
			hosttest.Ext4("11111111-2222-4333-8444-555555555555")(r.m.On(volume))
		}, "False FormatInterrupted"},
		"xfs":          {func(r *rig) { hosttest.Signed("xfs")(r.m.On(volume)) }, "False FormatInterrupted"},
		"part of a md": {func(r *rig) { r.m.On(volume).Holders = []string{"md0"} }, "False FormatInterrupted"},
		"another size": {func(r *rig) {
			r.m.On(volume).Size *= 2
			r.doc.Storage.Volumes[0].SizeBytes *= 2
		}, "False FormatInterrupted"},
		"another UUID": {func(r *rig) { r.doc.Storage.Volumes[0].FilesystemUUID = assigned2 }, "False FormatInterrupted"},
		"copied root disk": {func(r *rig) {
			f := r.m.Files[journalOf(volume)]
			f.Content = strings.Replace(f.Content, node, "another-node", 1)
			r.m.Files[journalOf(volume)] = f
		}, "False FormatInterrupted"},
		"damaged journal": {func(r *rig) {
			r.m.Files[journalOf(volume)] = hosttest.FileState{Content: "{", Mode: 0o600}
		}, "False FormatInterrupted"},
		"unreadable": {func(r *rig) { r.m.On(volume).Bad = []int64{0} }, "Unknown Unreadable"},
	}
	for name, c := range later {
		t.Run(name, func(t *testing.T) {
			r := killedMkfs(t)
			c.change(r)
			r.m.Trace = nil
			exports := notYet
			if c.want == mounted {
				exports = served
			}
			r.expect(c.want, exports)
			r.untouched()
		})
	}
}

func TestReformatOverwritesWhateverIsThere(t *testing.T) {
	cases := map[string]func(*testing.T) *rig{
		"foreign": func(t *testing.T) *rig {
			return machine(t, hosttest.Disk(volume, gib, hosttest.Table("gpt", "vdb1")))
		},
		"raw data": func(t *testing.T) *rig { return machine(t, hosttest.Disk(volume, gib, hosttest.Bytes(0, 1))) },
		"killed mkfs, damaged journal": func(t *testing.T) *rig {
			r := killedMkfs(t)
			r.m.Files[journalOf(volume)] = hosttest.FileState{Content: "{", Mode: 0o600}
			return r
		},
		"killed mkfs, void permit": func(t *testing.T) *rig {
			r := killedMkfs(t)
			r.permits.state[volume] = ""
			return r
		},
	}
	for name, situation := range cases {
		t.Run(name, func(t *testing.T) {
			r := situation(t)
			r.reformat()
			r.expect(mounted, served)
			if !r.did("wipefs") {
				t.Error("old signatures are not erased")
			}
			r.idle()
		})
	}
	t.Run("but not while it is in use", func(t *testing.T) {
		r := machine(t, hosttest.Disk(volume, gib, hosttest.With(func(d *hosttest.DiskState) { d.Holders = []string{"dm-0"} })))
		r.reformat()
		r.expect("False ForeignData", notYet)
		r.untouched()
	})
	t.Run("killed while overwriting", func(t *testing.T) {
		for n := 1; n < 200; n++ {
			r := machine(t, hosttest.Disk(volume, gib, hosttest.Signed("xfs")))
			r.reformat()
			if !r.crashing(n) {
				break
			}
			r.restart()
			r.converge()
			r.expect(mounted, served)
		}
	})
}

// The result of an overwrite is not overwritten: the journal may not have its end when someone
// mounts the disk by hand.
func TestOverwrittenDiskThatIsUsedSinceIsKept(t *testing.T) {
	since := map[string]func(*rig){
		"unused":            func(*rig) {},
		"mounted by hand":   func(r *rig) { hosttest.Ext4(assigned)(r.m.On(volume)) },
		"no controller now": func(r *rig) { r.permits.refuse = errAway },
	}
	for name, change := range since {
		t.Run(name, func(t *testing.T) {
			complete := 0
			for n := 1; n < 200; n++ {
				r := machine(t, hosttest.Disk(volume, gib, hosttest.Signed("xfs")))
				r.reformat()
				if !r.crashing(n) {
					break
				}
				if r.m.On(volume).Tags["UUID"] != assigned || !strings.Contains(r.file(journalOf(volume)), `"started"`) {
					continue
				}
				complete++
				change(r)
				r.m.Trace = nil
				r.restart()
				r.converge()
				r.untouched()
				if !r.did("start volume.mount") {
					t.Errorf("crashed before change %d: not mounted: %s", n, strings.Join(r.m.Trace, "; "))
				}
			}
			if complete == 0 {
				t.Error("mkfs was never complete before the journal said so")
			}
		})
	}
}

// The previous server was lost in the middle of a format. The reason names the unfinished
// format, and an operator decides; only a complete filesystem needs no decision.
func TestFormatThatAnotherServerDidNotFinish(t *testing.T) {
	for name, c := range map[string]struct {
		found func(*hosttest.DiskState)
		want  string
	}{
		"half of it":              {hosttest.Bytes(4096, 1), "False FormatInterrupted"},
		"something else":          {hosttest.Signed("xfs"), "False FormatInterrupted"},
		"the whole of it, unused": {hosttest.Ext4(assigned), mounted},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib, c.found))
			r.doc.Storage.Volumes[0].FormatInterruptedBy = "c1f4c7f0-0000-4000-8000-000000000001"
			report := r.converge()
			r.untouched()
			if got := condition(report, api.ConditionVolumesMounted); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if c.want == mounted {
				return
			}
			message := report.Condition(api.ConditionVolumesMounted).Message
			for _, part := range []string{"c1f4c7f0-0000-4000-8000-000000000001", "hitchctl volume reformat " + volume} {
				if !strings.Contains(message, part) {
					t.Errorf("the message %q does not say %q", message, part)
				}
			}
			r.reformat()
			r.doc.Storage.Volumes[0].FormatInterruptedBy = ""
			r.expect(mounted, served)
		})
	}
}

func TestNoPermitIsRequestedWithoutAnOperator(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Signed("xfs")))
	for range 3 {
		report := r.expect("False ForeignData", notYet)
		overwrites := func(a converge.Action) bool { return strings.HasPrefix(a.Summary, "overwrite") }
		if len(r.permits.log) > 0 || slices.ContainsFunc(report.Results[0].Planned, overwrites) {
			t.Errorf("asked %v, planned %+v", r.permits.log, report.Results[0].Planned)
		}
	}
	r.reformat()
	r.expect(mounted, served)
}

func TestFailingMkfsIsTriedAgain(t *testing.T) {
	for _, program := range []string{"mkfs", "e2fsck", "mkfs: write the superblock of"} {
		t.Run(program, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib))
			r.m.Fail[program] = errors.New("input/output error")
			report := r.expect("False FormatFailed", notYet)
			r.says(report, api.ConditionVolumesMounted, "input/output error")
			if r.did("start volume.mount") {
				t.Error("mounted anyway")
			}
			delete(r.m.Fail, program)
			r.expect(mounted, served)
		})
	}
}

func TestNothingIsFormattedBeforeItsStartIsAcknowledged(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	r.permits.crash = func(question string) {
		if question == "ask: started" {
			r.permits.refuse = errAway
		}
	}
	r.expect("False NoPermit", notYet)
	r.untouched()
	r.permits.refuse, r.permits.crash = nil, nil
	r.expect(mounted, served)
}

// Between the first blank check and the acknowledgement, another program may write to the disk.
func TestDiskThatIsWrittenToMeanwhileIsNotFormatted(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	r.permits.crash = func(question string) {
		if question == "ask: started" {
			r.m.On(volume).Write(0, []byte("data"))
		}
	}
	r.expect("False ForeignData", notYet)
	r.untouched()
	r.expect("False ForeignData", notYet)
	r.untouched()
}

// The same, with another disk put in its place.
func TestDiskThatIsSwappedMeanwhileIsNotFormatted(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	r.permits.crash = func(question string) {
		if question == "ask: started" && len(r.m.Disks) == 1 {
			r.m.Detach(r.m.On(volume))
			r.m.Attach(hosttest.NewDisk(volume, gib, hosttest.Bytes(gib/2, 1)))
		}
	}
	r.converge()
	r.untouched()
	r.expect("False ForeignData", notYet)
	r.untouched()
}

func TestFormatIsReportedUntilItIsKnown(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib))
	r.permits.crash = func(question string) {
		if question == "ask: formatted" {
			r.permits.refuse = errAway
		}
	}
	report := r.expect("False NoPermit", served)
	r.says(report, api.ConditionVolumesMounted, "reporting that it is formatted")
	r.permits.refuse, r.permits.crash = nil, nil
	r.expect(mounted, served)
	if r.permits.state[volume] != api.FormatFormatted {
		t.Error("the controller does not know")
	}
	r.idle()
}
