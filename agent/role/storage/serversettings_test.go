package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	nfsConf        = "/etc/nfs.conf.d/nodehitch.conf"
	records        = "/volume/.nodehitch/nfs-clients"
	recorded       = records + "/main.sqlite"
	defaultRecords = "/var/lib/nfs/nfsdcld"
	byDefault      = defaultRecords + "/main.sqlite"
)

// keeping is a machine whose document keeps PersistentVolumes at a heal.
func keeping(t *testing.T, parts ...hosttest.Part) *rig {
	r := machine(t, append([]hosttest.Part{hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server}, parts...)...)
	r.doc.Storage.ClientRecords = records
	return r
}

// notInstalled is a machine without the NFS server's package.
func notInstalled(m *hosttest.Machine) {
	delete(m.Installed, host.NFSServer)
	delete(m.Units, "nfs-server.service")
	delete(m.Units, "nfsdcld.service")
}

// clients is a file of the machine in which nfsdcld has recorded clients.
func clients(path, names string) hosttest.Part { return hosttest.WithFile(path, names, 0o600) }

func TestTheServerIsStartedWithItsSettings(t *testing.T) {
	cases := map[string]struct {
		parts    []hosttest.Part
		byDropIn bool
	}{
		"installed by the agent":          {nil, true},
		"of the image":                    {[]hosttest.Part{hosttest.Server}, true},
		"of the image, not running":       {[]hosttest.Part{hosttest.Server, func(m *hosttest.Machine) { m.Units["nfs-server.service"].Active = false }}, true},
		"of the image, its threads ended": {[]hosttest.Part{hosttest.Server, func(m *hosttest.Machine) { m.NFSD.NoThreads = true }}, true},
		"with an option for it":           {[]hosttest.Part{hosttest.Server, func(m *hosttest.Machine) { m.NFSD.SetsScope = true }}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, append(c.parts, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)))...)
			r.expect(mounted, served)
			for _, line := range []string{"[nfsd]", "scope=nodehitch-" + assigned, "lease-time=30", "grace-time=45"} {
				if !strings.Contains(r.m.NFSD.Conf, line+"\n") {
					t.Errorf("nfsd was started without %q:\n%s", line, r.m.NFSD.Conf)
				}
			}
			if r.m.NFSD.NoThreads {
				t.Error("nfsd does not run")
			}
			if len(r.m.NFSD.Exported) != 1 {
				t.Errorf("nfsd was started with %+v exported; a client that comes then loses its files", r.m.NFSD.Exported)
			}
			if strings.Contains(r.m.NFSD.Conf, "vers3") || strings.Contains(r.m.NFSD.Conf, "storagedir") {
				t.Errorf("PersistentVolumes are not kept, and nfsd was started with\n%s", r.m.NFSD.Conf)
			}
			if got := strings.Contains(r.m.NFSD.DropIn, "hostname nodehitch-"+assigned+"\n"); got != c.byDropIn {
				t.Errorf("the unit sets the scope: %v, expected %v:\n%s", got, c.byDropIn, r.m.NFSD.DropIn)
			}
			r.idle()
			r.m.NFSD.NoThreads = true
			r.expect(mounted, served)
			if r.m.NFSD.NoThreads {
				t.Error("after `rpc.nfsd 0` nfsd does not run")
			}
			r.idle()
		})
	}
}

func TestAServerThatServesKeepsItsName(t *testing.T) {
	cases := map[string]hosttest.Part{
		"it has a client":       func(m *hosttest.Machine) { m.NFSD.Clients = 1 },
		"it exports for others": func(m *hosttest.Machine) { m.Table = []host.Export{{Directory: "/srv/other", Client: "10.0.0.0/8"}} },
	}
	for name, part := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server, part)
			r.expect(mounted, served)
			if r.file(nfsConf) != "" || r.did("stop") {
				t.Errorf("did %q", r.m.Trace)
			}
			r.idle()
			r.doc.Storage.ClientRecords = records
			report := r.expect(mounted, "False ClientsNotRecorded")
			r.says(report, api.ConditionExportsServed, "stop nfs-server", "`withdraw`")
			if r.file(nfsConf) != "" || r.did("stop") {
				t.Errorf("did %q", r.m.Trace)
			}
		})
	}
}

// At boot the agent may look before nfs-server runs. An operator who stops it leaves no job.
func TestABootOfAServerThatKeepsItsName(t *testing.T) {
	for name, c := range map[string]struct{ records, after string }{
		"withdraw": {"", served},
		"keep":     {records, "False ClientsNotRecorded"},
	} {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server, func(m *hosttest.Machine) { m.NFSD.Clients = 1 })
			r.expect(mounted, served)
			r.doc.Storage.ClientRecords = c.records
			r.m.PowerOn()
			r.restart()
			report := r.expect(mounted, "False ServerNotRunning")
			r.says(report, api.ConditionExportsServed, "systemd", "`systemctl list-jobs`", "`journalctl -u nfs-server`")
			r.m.Boot()
			r.expect(mounted, c.after)
			if r.file(nfsConf) != "" || r.m.NFSD.Conf != "" || r.did("start nfs-server") {
				t.Errorf("its clients know it by another name: %q", r.m.Trace)
			}
			r.m.NFSD.Clients = 0
			if err := r.m.Host().Units.Stop(t.Context(), "nfs-server.service"); err != nil {
				t.Fatal(err)
			}
			r.expect(mounted, served)
			if !strings.Contains(r.m.NFSD.Conf, "scope=nodehitch-") || c.records != "" && r.m.NFSD.Record != c.records {
				t.Errorf("an operator has stopped it, and it was started with the record in %q and\n%s", r.m.NFSD.Record, r.m.NFSD.Conf)
			}
		})
	}
}

func TestTheRecordOfTheServerBefore(t *testing.T) {
	for name, parts := range map[string][]hosttest.Part{
		"of the image":           nil,
		"installed by the agent": {notInstalled},
	} {
		t.Run(name, func(t *testing.T) {
			r := keeping(t, append(parts, clients(recorded, "worker1"))...)
			r.expect(mounted, served)
			if r.m.NFSD.Record != records || r.file(recorded) != "worker1" {
				t.Errorf("nfsdcld has %q open with %q, expected the record of the server before", r.m.NFSD.Record, r.file(recorded))
			}
			if made := r.m.On(volume).Inside[".nodehitch/nfs-clients"]; made == nil || made.UID != 0 || made.Mode != 0o700 {
				t.Errorf("the directory of the record is %+v, expected root's with 0700", made)
			}
			if !strings.Contains(r.m.NFSD.Conf, "vers3=n\n") || !strings.Contains(r.m.NFSD.DropIn, "is-active nfsdcld.service") {
				t.Errorf("nfsd was started with\n%s\n%s", r.m.NFSD.Conf, r.m.NFSD.DropIn)
			}
			at := func(line string) int { return slices.Index(r.m.Trace, line) }
			order := []int{at("start volume.mount"), at("write " + nfsConf), at("write /etc/exports.d/nodehitch.exports"), max(at("start nfs-server.service"), at("install [NFS server]")), at("exportfs -ra")}
			if order[0] < 0 || !slices.IsSorted(order) || at("stop nfs-server.service") > order[1] {
				t.Errorf("the order is not mount, stop, record, exports, start: %q", r.m.Trace)
			}
			r.idle()
		})
	}
}

func TestTheRecordMovesWhileTheServerServes(t *testing.T) {
	many := strings.Repeat("worker1 ", 1<<20) // larger than a configuration file may be
	r := serving(t, clients(byDefault, many), clients(recorded, "of long ago"), clients(records+"/main.sqlite-journal", "of long ago"))
	r.m.NFSD.Clients, r.doc.Storage.ClientRecords = 1, records
	started := r.m.NFSD.Conf
	report := r.expect(mounted, served)
	r.says(report, api.ConditionExportsServed, "NFSv3 is offered too")
	if r.m.NFSD.Record != records || r.file(recorded) != many || r.file(records+"/main.sqlite-journal") != "" {
		t.Errorf("nfsdcld has %q open with %.60q", r.m.NFSD.Record, r.file(recorded))
	}
	r.idle()
	r.m.Files[recorded] = hosttest.FileState{Content: "worker1 worker2", Mode: 0o600}
	r.doc.Storage.ClientRecords = ""
	r.expect(mounted, served)
	if r.m.NFSD.Record != defaultRecords || r.file(byDefault) != "worker1 worker2" {
		t.Errorf("after the end of keep, nfsdcld has %q open with %q", r.m.NFSD.Record, r.file(byDefault))
	}
	r.idle()
	if started != r.m.NFSD.Conf || r.did("stop nfs-server") {
		t.Errorf("a server that serves was restarted: %q", r.m.Trace)
	}
}

// nfsdcld is stopped while its record moves. If the record cannot move, the server's next clients
// are recorded where they were.
func TestARecordThatCannotBeMoved(t *testing.T) {
	kept := func(t *testing.T) *rig {
		r := keeping(t, clients(recorded, "worker1"), clients(byDefault, "of long ago"))
		r.expect(mounted, served)
		r.doc.Storage.ClientRecords = ""
		return r
	}
	for name, c := range map[string]struct {
		situation func(*testing.T) *rig
		fails     string
		from, to  string
		after     string
	}{
		"the volume is full": {func(t *testing.T) *rig {
			r := serving(t, clients(byDefault, "worker1"), clients(recorded, "of long ago"))
			r.doc.Storage.ClientRecords = records
			return r
		}, "write " + recorded, defaultRecords, records, served},
		"the root disk is full":               {kept, "write " + byDefault, records, defaultRecords, served},
		"its configuration cannot be written": {kept, "write " + nfsConf, records, defaultRecords, served},
		"nothing is exported any more, but by others": {func(t *testing.T) *rig {
			r := kept(t)
			r.m.Files["/etc/exports"] = hosttest.FileState{Content: "/srv/other 10.0.0.0/8(ro)\n", Mode: 0o644}
			r.doc.Storage.Exports = []api.StorageExport{}
			return r
		}, "write " + byDefault, records, defaultRecords, "True Removed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.situation(t)
			r.m.NFSD.Clients, r.m.Trace = 1, nil
			r.m.Fail[c.fails] = errors.New("no space left on device")
			for range 2 {
				report := r.converge()
				r.says(report, api.ConditionExportsServed, "no space left on device")
				if !r.m.Units["nfsdcld.service"].Active || r.m.NFSD.Record != c.from || r.file(c.from+"/main.sqlite") != "worker1" {
					t.Errorf("nfsdcld runs: %v, with %q open in %q, expected it in %q", r.m.Units["nfsdcld.service"].Active, r.file(r.m.NFSD.Record+"/main.sqlite"), r.m.NFSD.Record, c.from)
				}
			}
			r.m.Fail["start nfsdcld.service"] = errors.New("exit-code")
			report := r.converge()
			r.says(report, api.ConditionExportsServed, "no space left on device", "nfsdcld.service")
			clear(r.m.Fail)
			r.expect(mounted, c.after)
			if r.m.NFSD.Record != c.to || r.file(c.to+"/main.sqlite") != "worker1" {
				t.Errorf("then it has %q open in %q, expected it in %q", r.file(r.m.NFSD.Record+"/main.sqlite"), r.m.NFSD.Record, c.to)
			}
			if r.did("stop nfs-server") {
				t.Errorf("a server that serves was stopped: %q", r.m.Trace)
			}
			r.idle()
		})
	}
}

// beginnings are how an agent begins after a crash.
var beginnings = map[string]func(*rig){
	"alone": (*rig).restart,
	"with its machine": func(r *rig) {
		r.m.Reboot()
		r.restart()
	},
	"before the units of its machine": func(r *rig) {
		r.m.PowerOn()
		r.restart()
		r.converge()
		r.m.Boot()
	},
}

// TestCrashAnywhereAroundTheRecord wants the clients in the record that is used, wherever the
// machine stopped.
func TestCrashAnywhereAroundTheRecord(t *testing.T) {
	situations := map[string]func(*testing.T) *rig{
		"a server that replaces another": func(t *testing.T) *rig {
			return keeping(t, clients(recorded, "worker1"))
		},
		"a server that serves": func(t *testing.T) *rig {
			r := serving(t, clients(byDefault, "worker1"), clients(recorded, "of long ago"))
			r.m.NFSD.Clients, r.doc.Storage.ClientRecords = 1, records
			return r
		},
		"a server that keeps nothing any more": func(t *testing.T) *rig {
			r := keeping(t, clients(recorded, "worker1"), clients(byDefault, "of long ago"))
			r.expect(mounted, served)
			r.m.NFSD.Clients, r.doc.Storage.ClientRecords = 1, ""
			return r
		},
	}
	for name, situation := range situations {
		for after, begin := range beginnings {
			for n := 1; n < 100; n++ {
				crashed := true
				t.Run(fmt.Sprintf("%s, %s, before change %d", name, after, n), func(t *testing.T) {
					r := situation(t)
					if crashed = r.crashing(n); !crashed {
						return
					}
					begin(r)
					r.expect(mounted, served)
					r.idle()
					want := records
					if r.doc.Storage.ClientRecords == "" {
						want = defaultRecords
					}
					if got := r.file(r.m.NFSD.Record + "/main.sqlite"); r.m.NFSD.Record != want || got != "worker1" {
						t.Errorf("nfsdcld has %q open with %q, expected worker1 in %s: %q", r.m.NFSD.Record, got, want, r.m.Trace)
					}
				})
				if !crashed {
					if n < 6 {
						t.Errorf("%s: only %d places to crash at", name, n)
					}
					break
				}
			}
		}
	}
}

// Debian's package starts the server, which serves at once. What ends then, the agent, apt or the
// machine, is continued.
func TestAnInstallationThatIsCutOff(t *testing.T) {
	for _, setsScope := range []bool{false, true} {
		for _, keep := range []string{"", records} {
			for how, begin := range beginnings {
				for n := 1; n < 100; n++ {
					crashed := true
					t.Run(fmt.Sprintf("rpc.nfsd sets the scope %v, record in %q, %s, before change %d", setsScope, keep, how, n), func(t *testing.T) {
						r := keeping(t, notInstalled, clients(recorded, "worker1"))
						r.m.NFSD.SetsScope, r.doc.Storage.ClientRecords = setsScope, keep
						if crashed = r.crashing(n); !crashed {
							return
						}
						if u := r.m.Units["nfs-server.service"]; u != nil && u.Active {
							r.m.NFSD.Clients = 1
						}
						begin(r)
						r.expect(mounted, served)
						r.doc.Storage.ClientRecords = records
						r.expect(mounted, served)
						if !strings.Contains(r.m.NFSD.Conf, "scope=") || keep != "" && r.file(recorded) != "worker1" {
							t.Errorf("the record has %q, and nfsd was started with\n%s", r.file(recorded), r.m.NFSD.Conf)
						}
						r.idle()
					})
					if !crashed {
						if n < 12 {
							t.Errorf("only %d places to crash at", n)
						}
						break
					}
				}
			}
			t.Run(fmt.Sprintf("rpc.nfsd sets the scope %v, record in %q, apt fails", setsScope, keep), func(t *testing.T) {
				r := keeping(t, notInstalled)
				r.m.NFSD.SetsScope, r.m.NFSD.Clients, r.doc.Storage.ClientRecords = setsScope, 1, keep
				r.m.Fail["configure"] = errors.New("the next package does not configure")
				for range 2 {
					r.converge()
				}
				r.doc.Storage.ClientRecords = records
				report := r.converge()
				r.says(report, api.ConditionExportsServed, "next package")
				delete(r.m.Fail, "configure")
				r.expect(mounted, served)
				r.idle()
			})
		}
	}
}

// The clients of the server before come at any time, also before the agent begins again.
func TestNoCrashLeavesTheNameOfTheHost(t *testing.T) {
	for _, keep := range []string{"", records} {
		for _, reboot := range []bool{false, true} {
			for n := 1; n < 100; n++ {
				r := keeping(t)
				r.doc.Storage.ClientRecords = keep
				if !r.crashing(n) {
					if n < 6 {
						t.Errorf("only %d places to crash at", n)
					}
					break
				}
				if reboot {
					r.m.Reboot()
				}
				if r.m.Units["nfs-server.service"].Active {
					r.m.NFSD.Clients = 1
				}
				r.restart()
				r.converge()
				r.doc.Storage.ClientRecords = records
				report := r.converge()
				if got := condition(report, api.ConditionExportsServed); got == served && !strings.Contains(r.m.NFSD.Conf, "scope=nodehitch-") {
					t.Errorf("record in %q, reboot %v, crashed before change %d: kept, and clients know the server by the host's name: %q", keep, reboot, n, r.m.Trace)
				}
			}
		}
	}
}

// At a boot without the volume nothing may run that would record clients elsewhere.
func TestABootWithoutTheVolumeOfTheRecord(t *testing.T) {
	r := keeping(t, hosttest.Disk(volume2, gib, hosttest.Ext4(assigned2)), clients(recorded, "worker1"))
	r.doc.Storage.Volumes = append(r.doc.Storage.Volumes, api.StorageVolume{
		VolumeID: volume2, SizeBytes: gib, MountPath: "/second", Filesystem: api.Ext4, FilesystemUUID: assigned2})
	r.doc.Storage.Exports = append(r.doc.Storage.Exports, api.StorageExport{Directory: "/second/nfs", Client: "10.10.0.7", Options: []string{"rw"}})
	disk := r.m.On(volume)
	for _, boot := range []string{"the first", "a later one"} {
		r.m.Detach(disk)
		if boot != "the first" {
			r.m.Reboot()
		}
		report := r.expect("False WaitingForDevice", notYet)
		r.says(report, api.ConditionExportsServed, "the record of the NFS server's clients", "/volume")
		if u := r.m.Units["nfs-server.service"]; boot != "the first" && u.Active || boot == "the first" && len(r.m.Table) > 0 {
			t.Errorf("%s boot: the NFS server is %+v and exports %+v", boot, u, r.m.Table)
		}
		r.m.Attach(disk)
		r.expect(mounted, served)
		if r.m.NFSD.Record != records || r.file(recorded) != "worker1" {
			t.Errorf("%s boot: nfsdcld has %q open with %q", boot, r.m.NFSD.Record, r.file(recorded))
		}
		r.idle()
	}
}

// Volumes are attached one after the other. A client of one that is not exported yet would be
// told that its files are gone.
func TestNothingIsServedBeforeAllVolumesAreMounted(t *testing.T) {
	r := keeping(t, hosttest.Disk(volume2, gib, hosttest.Ext4(assigned2)))
	r.doc.Storage.Volumes = append(r.doc.Storage.Volumes, api.StorageVolume{
		VolumeID: volume2, SizeBytes: gib, MountPath: "/second", Filesystem: api.Ext4, FilesystemUUID: assigned2})
	r.doc.Storage.Exports = append(r.doc.Storage.Exports, api.StorageExport{Directory: "/second/nfs", Client: "10.10.0.7", Options: []string{"rw"}})
	disk := r.m.On(volume2)
	r.m.Detach(disk)
	report := r.expect("False WaitingForDevice", notYet)
	r.says(report, api.ConditionExportsServed, "all volumes", "/second")
	if len(r.m.Table) > 0 || r.file("/etc/exports.d/nodehitch.exports") != "" {
		t.Errorf("exported: %+v", r.m.Table)
	}
	r.m.Attach(disk)
	r.expect(mounted, served)
	if len(r.m.NFSD.Exported) != 2 {
		t.Errorf("nfsd was started with %+v exported", r.m.NFSD.Exported)
	}
	// One that serves goes on with the others.
	r.m.Detach(disk)
	r.expect("False WaitingForDevice", notYet)
	if got := r.exported(); !slices.Equal(got, []string{"/volume/nfs/pv1 10.10.0.0/24"}) {
		t.Errorf("exported: %q", got)
	}
}

// The first volume is another one for a while, and the server is started by its name unseen.
func TestAServerThatWasStartedByTheNameOfAnotherVolume(t *testing.T) {
	r := keeping(t, hosttest.Disk(volume2, gib, hosttest.Ext4(assigned2)))
	r.doc.Storage.Volumes = append(r.doc.Storage.Volumes, api.StorageVolume{
		VolumeID: volume2, SizeBytes: gib, MountPath: "/second", Filesystem: api.Ext4, FilesystemUUID: assigned2})
	r.expect(mounted, served)
	slices.Reverse(r.doc.Storage.Volumes)
	r.doc.Storage.ClientRecords = "/second/.nodehitch/nfs-clients"
	if err := r.m.Host().Units.Stop(t.Context(), "nfs-server.service"); err != nil {
		t.Fatal(err)
	}
	r.m.Fail["start nfs-server.service"] = errors.New("exit-code")
	r.expect(mounted, "False ServerNotRunning")
	clear(r.m.Fail)
	r.m.Reboot()
	r.m.NFSD.Clients = 1
	slices.Reverse(r.doc.Storage.Volumes)
	r.doc.Storage.ClientRecords = records
	report := r.expect(mounted, "False ClientsNotRecorded")
	r.says(report, api.ConditionExportsServed, "another volume was the first then")
}

func TestARecordThatIsNotInUse(t *testing.T) {
	t.Run("nfsdcld has ended", func(t *testing.T) {
		r := keeping(t)
		r.expect(mounted, served)
		r.m.Units["nfsdcld.service"].Active, r.m.NFSD.Clients = false, 1
		r.expect(mounted, served)
		if !r.m.Units["nfsdcld.service"].Active {
			t.Error("nfsdcld does not run")
		}
	})
	t.Run("nfsdcld does not start", func(t *testing.T) {
		r := keeping(t)
		r.m.Fail["start nfsdcld.service"] = errors.New("exit-code")
		report := r.expect(mounted, "False ClientsNotRecorded")
		r.says(report, api.ConditionExportsServed, "nfsdcld.service")
		if r.m.Units["nfs-server.service"].Active || len(r.m.Table) > 0 {
			t.Errorf("served without a record, or by the host's name: %q", r.m.Trace)
		}
		delete(r.m.Fail, "start nfsdcld.service")
		r.expect(mounted, served)
		if r.m.NFSD.OtherTracking || !strings.Contains(r.m.NFSD.Conf, "scope=") {
			t.Errorf("nfsd was started with %q", r.m.NFSD.Conf)
		}
		r.idle()
	})
	t.Run("there is no nfsdcld", func(t *testing.T) {
		for name, r := range map[string]*rig{"kept from the beginning": keeping(t), "kept later": serving(t)} {
			r.m.NFSD.Clients = 0
			delete(r.m.Units, "nfsdcld.service")
			r.doc.Storage.ClientRecords = records
			r.expect(mounted, "False ClientsNotRecorded")
			if name == "kept from the beginning" && (r.m.Units["nfs-server.service"].Active || len(r.m.Table) > 0) {
				t.Errorf("served without a record: %q", r.m.Trace)
			}
			r.doc.Storage.ClientRecords = ""
			r.expect(mounted, served)
			r.idle()
			r.doc.Storage.ClientRecords = records
			r.expect(mounted, "False ClientsNotRecorded")
			r.doc.Storage = &api.StorageSection{}
			r.expect("True Removed", "True Removed")
		}
	})
	t.Run("the volume is slow", func(t *testing.T) {
		for name, part := range map[string]hosttest.Part{"of the image": hosttest.Server, "installed by the agent": notInstalled} {
			r := keeping(t, part, clients(recorded, "worker1"))
			r.m.NFSD.SlowVolume = true
			for _, start := range []string{"the first", "a boot"} {
				r.expect(mounted, served)
				if r.m.NFSD.OtherTracking || r.m.NFSD.Record != records {
					t.Errorf("%s, %s: the kernel did not wait for nfsdcld, which has its database in %q", name, start, r.m.NFSD.Record)
				}
				r.idle()
				r.m.NFSD.Clients = 1
				r.m.Reboot()
				r.restart()
			}
		}
	})
	t.Run("its directory leads elsewhere", func(t *testing.T) {
		r := keeping(t)
		r.m.Fail["make"] = errors.New("leads through a symbolic link")
		report := r.expect(mounted, "False ClientsNotRecorded")
		r.says(report, api.ConditionExportsServed, "symbolic link")
		if r.m.Units["nfs-server.service"].Active || len(r.m.Table) > 0 {
			t.Errorf("served without a record: %q", r.m.Trace)
		}
	})
	t.Run("clients could write to its directory when their volume was exported", func(t *testing.T) {
		r := keeping(t)
		r.doc.Storage.Exports[0].Directory, r.doc.Storage.ClientRecords = "/volume", ""
		r.expect(mounted, served)
		r.doc.Storage.Exports[0].Directory, r.doc.Storage.ClientRecords = "/volume/nfs", records
		report := r.expect(mounted, "False ClientsNotRecorded")
		r.says(report, api.ConditionExportsServed, "/volume can be written to")
		r.m.On(volume).Inside["."].UID = 0
		r.m.On(volume).Inside[".nodehitch/nfs-clients"] = &hosttest.Inside{Shared: host.Shared{Exists: true, Mode: 0o777}}
		report = r.expect(mounted, "False ClientsNotRecorded")
		r.says(report, api.ConditionExportsServed, "/volume/.nodehitch/nfs-clients can be written to")
		r.m.On(volume).Inside[".nodehitch/nfs-clients"].Mode = 0o755
		r.expect(mounted, served)
		if mode := r.m.On(volume).Inside[".nodehitch/nfs-clients"].Mode; mode != 0o700 {
			t.Errorf("its mode is %o", mode)
		}
	})
	t.Run("the same, found by an agent that is newer than the one that set it up", func(t *testing.T) {
		const dropIn = "/etc/systemd/system/nfsdcld.service.d/nodehitch.conf"
		for name, noted := range map[string]bool{"the name is noted": true, "the name is not noted": false} {
			r := keeping(t, clients(recorded, "worker1"))
			r.expect(mounted, served)
			start := func(verb func(context.Context, string) error) {
				if err := verb(t.Context(), "nfs-server.service"); err != nil {
					t.Fatal(err)
				}
			}
			older := r.m.Files[dropIn]
			older.Content, _, _ = strings.Cut(older.Content, "\n[Service]")
			r.m.Files[dropIn] = older
			r.m.On(volume).Inside["."] = &hosttest.Inside{Shared: host.Shared{Exists: true, UID: 65534, Mode: 0o755}}
			if noted { // and nothing is served when it looks first
				start(r.m.Host().Units.Stop)
				report := r.expect(mounted, "False ClientsNotRecorded")
				r.says(report, api.ConditionExportsServed, "/volume can be written to")
				start(r.m.Host().Units.Start)
			} else {
				delete(r.m.Files, inventoryPath)
			}
			r.m.NFSD.Clients = 1
			report := r.expect(mounted, "False ClientsNotRecorded")
			r.says(report, api.ConditionExportsServed, "/volume can be written to")
			r.m.On(volume).Inside["."].UID = 0
			r.m.Trace = nil
			r.expect(mounted, served)
			if r.did("stop nfs-server") || r.file(recorded) != "worker1" {
				t.Errorf("%s: a server that serves lost its clients: %q", name, r.m.Trace)
			}
			r.idle()
		}
	})
	t.Run("the same, while nothing is served, and then somebody starts the server", func(t *testing.T) {
		r := keeping(t, clients(byDefault, "worker1"))
		r.doc.Storage.ClientRecords = ""
		r.expect(mounted, served)
		if err := r.m.Host().Units.Stop(t.Context(), "nfs-server.service"); err != nil {
			t.Fatal(err)
		}
		r.doc.Storage.ClientRecords = records
		r.m.On(volume).Inside["."] = &hosttest.Inside{Shared: host.Shared{Exists: true, UID: 65534, Mode: 0o755}}
		for range 2 {
			report := r.expect(mounted, "False ClientsNotRecorded")
			r.says(report, api.ConditionExportsServed, "/volume can be written to")
			if err := r.m.Host().Units.Start(t.Context(), "nfs-server.service"); err != nil {
				t.Fatal(err)
			}
			r.m.NFSD.Clients = 1
		}
		r.m.On(volume).Inside["."].UID = 0
		r.expect(mounted, served)
		r.idle()
	})
	t.Run("the kernel uses something else", func(t *testing.T) {
		r := keeping(t)
		r.expect(mounted, served)
		r.m.NFSD.OtherTracking, r.m.NFSD.Clients, r.m.Trace = true, 1, nil
		report := r.expect(mounted, "False ClientsNotRecorded")
		r.says(report, api.ConditionExportsServed, "does not use nfsdcld", records)
		if r.did("stop nfs-server") {
			t.Error("a server that serves was stopped")
		}
	})
}

// Who may mount changes also while a server that replaces this one would lack its clients.
func TestExportsChangeWhileClientsAreNotRecorded(t *testing.T) {
	second := func(r *rig) {
		r.m.Attach(hosttest.NewDisk(volume2, gib, hosttest.Ext4(assigned2)))
		r.doc.Storage.Volumes = append(r.doc.Storage.Volumes, api.StorageVolume{
			VolumeID: volume2, SizeBytes: gib, MountPath: "/second", Filesystem: api.Ext4, FilesystemUUID: assigned2})
		r.doc.Storage.Exports = append(r.doc.Storage.Exports, api.StorageExport{Directory: "/second/nfs", Client: "10.10.0.7", Options: []string{"rw"}})
	}
	for name, c := range map[string]struct {
		situation     func(*rig)
		mounted, says string
	}{
		"others have set it up": {func(r *rig) {
			r.m.NFSD.Clients = 1
			second(r)
		}, mounted, "False ClientsNotRecorded"},
		"the kernel uses something else": {func(r *rig) {
			second(r)
			r.expect(mounted, served)
			r.m.NFSD.OtherTracking = true
		}, mounted, "False ClientsNotRecorded"},
		"nfsdcld does not start": {func(r *rig) {
			second(r)
			r.expect(mounted, served)
			r.m.Units["nfsdcld.service"].Active = false
			r.m.Fail["start nfsdcld.service"] = errors.New("exit-code")
		}, mounted, "False ClientsNotRecorded"},
		"the volume of the record is lost": {func(r *rig) {
			second(r)
			r.expect(mounted, served)
			r.m.Detach(r.m.On(volume))
		}, "False WaitingForDevice", notYet},
	} {
		t.Run(name, func(t *testing.T) {
			r := keeping(t)
			c.situation(r)
			r.expect(c.mounted, c.says)
			r.m.Trace = nil
			r.doc.Storage.Exports[1].Client = "10.10.0.8"
			r.expect(c.mounted, c.says)
			if got := r.exported(); !slices.Contains(got, "/second/nfs 10.10.0.8") || slices.Contains(got, "/second/nfs 10.10.0.7") {
				t.Errorf("exported: %q", got)
			}
			if r.did("stop nfs-server") || r.did("start nfs-server") {
				t.Errorf("a server that serves was touched: %q", r.m.Trace)
			}
			if len(r.m.Fail) == 0 { // what fails is tried again
				r.idle()
			}
		})
	}
}

func TestRecordsThatAreNotTaken(t *testing.T) {
	for name, change := range map[string]func(*api.StorageSection){
		"not on the volume":         func(s *api.StorageSection) { s.ClientRecords = "/var/lib/nfs/nfsdcld" },
		"above it":                  func(s *api.StorageSection) { s.ClientRecords = "/volume/../etc" },
		"the volume itself":         func(s *api.StorageSection) { s.ClientRecords = "/volume" },
		"in an export":              func(s *api.StorageSection) { s.ClientRecords = "/volume/nfs/pv1/records" },
		"an export in it":           func(s *api.StorageSection) { s.ClientRecords = "/volume/nfs" },
		"the mount point exported":  func(s *api.StorageSection) { s.Exports[0].Directory = "/volume" },
		"root of clients is root":   func(s *api.StorageSection) { s.Exports[0].Options = []string{"rw", "no_root_squash"} },
		"more than a path":          func(s *api.StorageSection) { s.ClientRecords = records + "\n[nfsd]" },
		"not on the first volume":   func(s *api.StorageSection) { s.ClientRecords = "/volume2/records" },
		"relative to the directory": func(s *api.StorageSection) { s.ClientRecords = "volume/records" },
	} {
		t.Run(name, func(t *testing.T) {
			r := keeping(t)
			change(r.doc.Storage)
			r.expect(mounted, "False InvalidDocument")
			if r.file(nfsConf) != "" || len(r.m.Table) > 0 {
				t.Errorf("did %q", r.m.Trace)
			}
		})
	}
}

func TestRemovalOfTheSettings(t *testing.T) {
	for name, others := range map[string]bool{"the server is not used any more": false, "others export something": true} {
		t.Run(name, func(t *testing.T) {
			r := keeping(t)
			r.expect(mounted, served)
			if others {
				r.m.Files["/etc/exports"] = hosttest.FileState{Content: "/srv/other 10.0.0.0/8(ro)\n", Mode: 0o644}
			}
			r.doc.Storage.Exports, r.doc.Storage.ClientRecords = []api.StorageExport{}, ""
			r.m.Files[recorded] = hosttest.FileState{Content: "worker1", Mode: 0o600}
			r.expect(mounted, "True Removed")
			for path := range r.m.Files {
				if path == nfsConf || strings.HasSuffix(path, "nfs-server.service.d/nodehitch.conf") || strings.HasSuffix(path, "nfsdcld.service.d/nodehitch.conf") {
					t.Errorf("%s is left", path)
				}
			}
			if u := r.m.Units["nfsdcld.service"]; u.Active && r.m.NFSD.Record == records {
				t.Error("nfsdcld still has its database on the volume, which cannot be unmounted")
			}
			r.idle()
			r.doc.Storage.Volumes = []api.StorageVolume{}
			r.expect("True Removed", "True Removed")
		})
	}
	t.Run("with its volume", func(t *testing.T) {
		r := keeping(t)
		r.expect(mounted, served)
		r.doc.Storage = &api.StorageSection{}
		r.expect("True Removed", "True Removed")
		if r.mountedAt("/volume") || r.file(nfsConf) != "" {
			t.Errorf("still there: %+v, %q", r.m.MountTable, r.file(nfsConf))
		}
	})
}
