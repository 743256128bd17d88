package storage_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const inventoryPath = "/var/lib/nodehitch/agent/inventory.json"

// damaged are contents that a file may have instead: cut off everywhere, zeroed, and
// JSON that says nothing.
func damaged(whole string) []string {
	all := []string{"null", "[]", "x", strings.Repeat("\x00", len(whole)), whole + whole[1:]}
	for n := range len(strings.TrimSpace(whole)) {
		all = append(all, whole[:n])
	}
	return all
}

// Without the inventory it is not known what is ours, so nothing is removed.
func TestDamagedInventoryRemovesNothing(t *testing.T) {
	r := serving(t)
	whole := r.file(inventoryPath)
	foreign := strings.NewReplacer(`"mountPath": "/volume"`, `"mountPath": "/etc"`).Replace(whole)
	nobody := strings.Replace(whole, volume, "../x", 1)
	for _, content := range append(damaged(whole), foreign, nobody) {
		r.m.Files[inventoryPath] = hosttest.FileState{Content: content, Mode: 0o600}
		for _, section := range []*api.StorageSection{{}, document().Storage} {
			r.doc.Storage = section
			report := r.converge()
			if got := condition(report, api.ConditionVolumesMounted); got != "Unknown StateDamaged" {
				t.Errorf("%.40q: VolumesMounted is %s", content, got)
			}
			r.says(report, api.ConditionVolumesMounted, inventoryPath, "remove it")
		}
	}
	if len(r.m.Trace) != 0 || r.file(inventoryPath) != nobody || !r.mountedAt("/volume") {
		t.Errorf("something was changed: %s", strings.Join(r.m.Trace, "; "))
	}
	delete(r.m.Files, inventoryPath) // by a person
	r.expect(mounted, served)
	r.idle()
	r.doc.Storage = &api.StorageSection{}
	r.expect("True Removed", "True Removed")
}

// A format has begun, and its journal is damaged: whatever is on the disk, the agent never
// assumes that no format has begun.
func TestDamagedJournalIsNoBlankPage(t *testing.T) {
	record := interrupted(t).file(journalOf(volume))
	if !strings.Contains(record, `"started"`) {
		t.Fatalf("the situation is not what it should be: %s", record)
	}
	for name, disk := range map[string]hosttest.Part{
		"blank":       hosttest.Disk(volume, gib),
		"half a mkfs": hosttest.Disk(volume, gib, hosttest.Bytes(gib/2, 1)),
		"a whole one": hosttest.Disk(volume, gib, hosttest.Fresh(assigned)),
		"ext4":        hosttest.Disk(volume, gib, hosttest.Ext4("0e0e0e0e-0000-4000-8000-000000000000")),
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, disk)
			for _, content := range damaged(record) {
				r.m.Files[journalOf(volume)] = hosttest.FileState{Content: content, Mode: 0o600}
				report := r.converge()
				got := condition(report, api.ConditionVolumesMounted)
				if got != "False FormatInterrupted" && got != "True Mounted" || name != "a whole one" && got == "True Mounted" {
					t.Errorf("%.60q: VolumesMounted is %s", content, got)
				}
				r.says(report, api.ConditionVolumesMounted, journalOf(volume))
			}
			r.untouched()
		})
	}
}

// interrupted is a machine whose mkfs was begun and did not end.
func interrupted(t *testing.T) *rig {
	t.Helper()
	r := machine(t, hosttest.Disk(volume, gib))
	r.m.Fail["mkfs"] = syscall.EIO
	r.converge()
	return r
}

// The disk of the state directory is full from the n-th write on: no format begins without
// its journal on disk, the condition names the problem, and the node converges when there is
// room again.
func TestFullDisk(t *testing.T) {
	for _, failure := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		for n := 1; ; n++ {
			r := machine(t, hosttest.Disk(volume, gib))
			writes := 0
			r.m.Before = func(change string) {
				if strings.HasPrefix(change, "write ") {
					if writes++; writes >= n {
						r.m.Fail["write"] = failure
					}
				}
			}
			report := r.converge()
			if r.m.Fail["write"] == nil {
				if n < 8 {
					t.Errorf("only %d writes", n-1)
				}
				break
			}
			journal := r.file(journalOf(volume))
			if r.did("mkfs") && (journal == "" || strings.Contains(journal, `"permitted"`)) {
				t.Errorf("%d: a format was begun without a journal", n)
			}
			ready := report.Condition(api.ConditionReady)
			if ready.Status == api.ConditionTrue || !strings.Contains(fmt.Sprint(report.Conditions), "NoSpace") {
				t.Errorf("%d: %+v", n, report.Conditions)
			}
			r.m.Before = nil
			delete(r.m.Fail, "write")
			r.expect(mounted, served)
			r.idle()
		}
	}
}
