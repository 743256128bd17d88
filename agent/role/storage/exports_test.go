package storage_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/agent/machine/host/hosttest"
	"github.com/nodehitch/nodehitch/shared/api"
)

func TestExportsFileIsTheSameForTheSameDocument(t *testing.T) {
	r := serving(t)
	r.doc.Storage.Exports = []api.StorageExport{
		{Directory: "/volume/nfs/pv2", Client: "host1.example.org", Options: []string{"rw"}},
		{Directory: "/volume/nfs/pv1", Client: "10.10.1.7/24", Options: []string{"rw", "sync"}},
		{Directory: "/volume/nfs/pv1", Client: "10.10.0.5", Options: []string{"ro"}},
		{Directory: "/volume", Client: "fd00::/64", Options: []string{}},
	}
	r.expect(mounted, served)
	want := "# Written by nodehitch-agent, which repairs it: changes made here are lost.\n" +
		"/volume fd00::/64(mountpoint=/volume)\n" +
		"/volume/nfs/pv1 10.10.0.5(ro,mountpoint=/volume)\n" +
		"/volume/nfs/pv1 10.10.1.0/24(rw,sync,mountpoint=/volume)\n" +
		"/volume/nfs/pv2 host1.example.org(rw,mountpoint=/volume)\n"
	if diff := cmp.Diff(want, r.file("/etc/exports.d/nodehitch.exports")); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(r.doc.Storage.Exports)
	r.idle()
}

func TestExportsThatAreNotTaken(t *testing.T) {
	cases := map[string]api.StorageExport{
		"on the root disk":    {Directory: "/srv", Client: "10.0.0.0/8"},
		"beside the volume":   {Directory: "/volume2", Client: "10.0.0.0/8"},
		"above it":            {Directory: "/volume/../etc", Client: "10.0.0.0/8"},
		"options in a client": {Directory: "/volume/a", Client: "10.0.0.0/8(no_root_squash)"},
		"any name":            {Directory: "/volume/a", Client: "*.example.org"},
		"an unsafe option":    {Directory: "/volume/a", Client: "10.0.0.0/8", Options: []string{"rw", "async"}},
		"an unknown option":   {Directory: "/volume/a", Client: "10.0.0.0/8", Options: []string{"crossmnt"}},
		"another mountpoint":  {Directory: "/volume/a", Client: "10.0.0.0/8", Options: []string{"mountpoint=/"}},
		"options that end it": {Directory: "/volume/a", Client: "10.0.0.0/8", Options: []string{"rw) *(rw"}},
		"contradictions":      {Directory: "/volume/a", Client: "10.0.0.0/8", Options: []string{"all_squash", "no_root_squash"}},
		"blank in the path":   {Directory: "/volume/a b", Client: "10.0.0.0/8"},
		"quote in the path":   {Directory: `/volume/a"b`, Client: "10.0.0.0/8"},
	}
	for name, e := range cases {
		t.Run(name, func(t *testing.T) {
			r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server)
			r.doc.Storage.Exports = []api.StorageExport{e}
			r.expect(mounted, "False InvalidDocument")
			if r.file("/etc/exports.d/nodehitch.exports") != "" {
				t.Error("an exports file was written")
			}
		})
	}
}

func TestDirectoryThatLeadsElsewhereIsNotExported(t *testing.T) {
	r := serving(t)
	r.m.On(volume).Inside["nfs/pv1"] = &hosttest.Inside{Problem: "leads through a symbolic link, which is not followed: remove the link"}
	report := r.expect(mounted, "False ExportRefused")
	r.says(report, api.ConditionExportsServed, "/volume/nfs/pv1", "symbolic link")
	if len(r.m.Table) != 0 {
		t.Errorf("exported: %+v", r.m.Table)
	}
}

// withOptions exports /volume/nfs/pv1 with these options.
func withOptions(t *testing.T, options ...string) *rig {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server)
	r.doc.Storage.Exports[0].Options = options
	return r
}

func TestWhoOwnsAnExportedDirectory(t *testing.T) {
	for options, owner := range map[string]int{
		"rw,all_squash": 65534,
		"rw,all_squash,anonuid=1000,anongid=1000":  1000,
		"ro,all_squash,anonuid=1000,anongid=1000":  1000,
		"rw,root_squash,anonuid=1000,anongid=1000": 1000,
		"rw,no_root_squash":                        65534,
	} {
		t.Run(options, func(t *testing.T) {
			r := withOptions(t, strings.Split(options, ",")...)
			r.expect(mounted, served)
			if made := r.m.On(volume).Inside["nfs/pv1"]; made == nil || made.UID != owner || made.GID != owner || made.Mode != 0o755 {
				t.Errorf("made %+v, want it to belong to %d", made, owner)
			}
			r.idle()
		})
	}
}

// An image changes the owner of what it has mounted: that lasts where it may.
func TestAnOwnerThatAClientHasSet(t *testing.T) {
	for options, stays := range map[string]bool{
		"rw,no_root_squash":                     true,
		"rw,root_squash":                        true,
		"ro,all_squash":                         true,
		"rw,all_squash":                         false,
		"rw,all_squash,anonuid=1000":            false,
		"rw,no_root_squash,sec=sys":             true,
		"rw,all_squash,anonuid=999":             false, // the group is another
		"rw,all_squash,anonuid=999,anongid=999": true,
	} {
		t.Run(options, func(t *testing.T) {
			r := withOptions(t, strings.Split(options, ",")...)
			r.expect(mounted, served)
			directory := r.m.On(volume).Inside["nfs/pv1"]
			directory.UID, directory.GID, directory.Mode = 999, 999, 0o700
			r.expect(mounted, served)
			now := r.m.On(volume).Inside["nfs/pv1"]
			if got := now.UID == 999 && now.GID == 999; got != stays || now.Mode != 0o700 {
				t.Errorf("now %+v; want that it stays: %t", now, stays)
			}
			r.idle()
		})
	}
}

func TestADirectoryOfTwoExportsHasOneOwner(t *testing.T) {
	r := withOptions(t, "rw", "root_squash")
	r.doc.Storage.Exports = append(r.doc.Storage.Exports,
		api.StorageExport{Directory: "/volume/nfs/pv1", Client: "192.0.2.1", Options: []string{"rw", "all_squash", "anonuid=1000", "anongid=1000"}})
	r.expect(mounted, served)
	if made := r.m.On(volume).Inside["nfs/pv1"]; made.UID != 1000 || made.GID != 1000 {
		t.Errorf("made %+v, want it to belong to the one that all users of a client are", made)
	}
	r.idle()
	r.doc.Storage.Exports[0].Options = []string{"rw", "all_squash"}
	report := r.expect(mounted, "False InvalidDocument")
	r.says(report, api.ConditionExportsServed, "/volume/nfs/pv1", "65534:65534", "1000:1000")
}

func TestEverybodyIsAClient(t *testing.T) {
	r := serving(t)
	r.doc.Storage.Exports[0].Client = "*"
	r.expect(mounted, served)
	if got := r.exported(); !slices.Equal(got, []string{"/volume/nfs/pv1 *"}) {
		t.Errorf("exported: %q", got)
	}
	r.idle()
	r.doc.Storage.Exports[0].Client = "client1.example.org"
	r.expect(mounted, served)
	if got := r.exported(); !slices.Equal(got, []string{"/volume/nfs/pv1 client1.example.org"}) {
		t.Errorf("exported: %q", got)
	}
}

func TestServerThatDoesNotRun(t *testing.T) {
	r := serving(t)
	r.m.Units["nfs-server.service"].Active = false
	r.m.Fail["start"] = errors.New("dependency")
	report := r.expect(mounted, "False ServerNotRunning")
	r.says(report, api.ConditionExportsServed, "nfs-server.service", "dependency")
	delete(r.m.Fail, "start")
	r.expect(mounted, served)
	r.idle()
}

func TestExportfsThatRefuses(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server)
	r.m.Fail["exportfs -ra"] = errors.New(`unknown keyword "foo"`)
	report := r.expect(mounted, "False ExportRefused")
	r.says(report, api.ConditionExportsServed, "/volume/nfs/pv1", "10.10.0.0/24", "unknown keyword")
}

// Another file exports the same directory to the same clients with other options.
func TestContradictingLine(t *testing.T) {
	r := machine(t, hosttest.Disk(volume, gib, hosttest.Ext4(assigned)), hosttest.Server)
	r.expect(mounted, served)
	r.m.Files["/etc/exports"] = hosttest.FileState{Content: "/volume/nfs/pv1 10.10.0.0/24(ro)\n", Mode: 0o644}
	delete(r.m.Files, "/etc/exports.d/nodehitch.exports")
	r.m.Table = []host.Export{{Directory: "/volume/nfs/pv1", Client: "10.10.0.0/24", Options: []string{"ro"}}}
	r.expect(mounted, served)
	if !strings.Contains(r.file("/etc/exports"), "(ro)") {
		t.Error("the operator's file was changed")
	}
}

func TestWhatOthersExportIsTheirs(t *testing.T) {
	r := serving(t, hosttest.WithFile("/etc/exports", "/volume/mine 192.0.2.1(ro)\n", 0o644))
	r.m.Table = nil
	r.expect(mounted, served)
	if got := r.exported(); !slices.Equal(got, []string{"/volume/mine 192.0.2.1", "/volume/nfs/pv1 10.10.0.0/24"}) {
		t.Errorf("exported: %q", got)
	}
	r.idle()
}

func TestExportThatLeavesTheDocumentIsRemoved(t *testing.T) {
	r := serving(t)
	r.doc.Storage.Exports[0].Client = "10.20.0.0/24"
	r.expect(mounted, served)
	if got := r.exported(); !slices.Equal(got, []string{"/volume/nfs/pv1 10.20.0.0/24"}) {
		t.Errorf("exported: %q", got)
	}
	r.doc.Storage.Exports = []api.StorageExport{}
	r.expect(mounted, "True Removed")
	if got := r.exported(); len(got) != 0 {
		t.Errorf("exported: %q", got)
	}
	r.idle()
}

// exportfs reports a short name as the canonical one.
func TestHostNameIsRecognised(t *testing.T) {
	r := serving(t)
	r.doc.Storage.Exports[0].Client = "client1"
	r.expect(mounted, served)
	r.m.Table[0].Client = "client1.example.org"
	r.idle()
}
