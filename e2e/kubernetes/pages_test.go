package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// desk is a directory that has the files of a master, as far as the pages go. Their commands are
// pasted there, with programs that do nothing but what is said.
type desk struct {
	*testing.T
	dir string
	// mounted says that /var/lib/etcd is a mount point.
	mounted bool
}

// Where the commands work, and the programs that they find.
var (
	absolute = regexp.MustCompile(`(?m)(^|[^\w/.-])/(root|etc|var|proc)\b`)
	programs = map[string]string{
		"systemctl": "",
		"kubectl":   "",
		"sync":      "",
		"curl":      `cat "$DESK/metrics"`,
		"pidof":     `test -e "$DESK/etc/kubernetes/manifests/etcd.yaml" && echo 1`,
		// It fails as etcdutl does, which takes no directory that has files.
		"etcdutl": `test -z "$(ls -A "$DESK/var/lib/etcd")" && mkdir -p "$DESK/var/lib/etcd/member" && echo restored >"$DESK/var/lib/etcd/member/db"`,
	}
)

// cutOff is a cp whose first copy of a directory is cut off.
const cutOff = `test "$1" != -aT || test -e "$DESK/again" || { touch "$DESK/again"; mkdir -p "$DESK/root/$3/part"; exit 130; }
exec /bin/cp "$@"`

// fullDisk is a cp whose first copy of a manifest finds room for a part of it.
const fullDisk = `case "$1" in *.yaml)
test -e "$DESK/again" || { touch "$DESK/again"; test ! -d "$2" || set -- "$1" "$2/${1##*/}"; head -c 9 "$1" >"$2"; exit 1; }
esac
exec /bin/cp "$@"`

// A sync that puts /root on the disk, and an rm of manifests after which the power is cut: /root is
// what the last sync has put there.
const (
	toDisk   = `/bin/rm -rf "$DESK/disk" && /bin/cp -a "$DESK/root" "$DESK/disk"`
	powerCut = `/bin/rm "$@"
case "$*" in *etcd.yaml*) /bin/rm -rf "$DESK/root"; mkdir -p "$DESK/disk"; mv "$DESK/disk" "$DESK/root"; exit 137;; esac`
)

const (
	noLeader = "etcd_server_has_leader 0\n"
	aLeader  = "etcd_server_has_leader 1\n"
)

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, dir: t.TempDir()}
	for name, script := range programs {
		d.program(name, script)
	}
	d.write("etc/kubernetes/manifests/etcd.yaml", "    - etcd\n    - --name=m1\n    - --initial-advertise-peer-urls=https://10.0.0.11:2380\n")
	d.write("etc/kubernetes/manifests/kube-apiserver.yaml", "kind: Pod\n")
	d.write("var/lib/etcd/member/db", "today")
	d.write("proc/1/cmdline", "etcd")
	d.write("metrics", noLeader)
	d.write("root/.profile", "")
	return d
}

func (d *desk) write(path, content string) {
	d.Helper()
	path = filepath.Join(d.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) program(name, script string) {
	d.write("bin/"+name, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(filepath.Join(d.dir, "bin", name), 0o700); err != nil {
		d.Fatal(err)
	}
}

// has is the content of a file, "" if there is none.
func (d *desk) has(path string) string {
	content, _ := os.ReadFile(filepath.Join(d.dir, path))
	return string(content)
}

func (d *desk) exists(path string) bool {
	_, err := os.Stat(filepath.Join(d.dir, path))
	return err == nil
}

// paste runs commands, and returns what they print and whether all went well.
func (d *desk) paste(commands ...string) (said string, ok bool) {
	d.Helper()
	text := absolute.ReplaceAllString(strings.Join(commands, "\n"), "$1"+d.dir+"/$2")
	text = strings.ReplaceAll(text, d.dir+"/root/etcd-restore/etcdutl", "etcdutl")
	argv := []string{"sh", "-euc", text}
	if d.mounted {
		argv = append([]string{"unshare", "--map-root-user", "--mount", "sh", "-euc",
			`mv "$DESK/var/lib/etcd" "$DESK/was" && mkdir "$DESK/var/lib/etcd" && mount -t tmpfs none "$DESK/var/lib/etcd" && cp -a "$DESK/was/." "$DESK/var/lib/etcd" && "$@" && cp -a "$DESK/var/lib/etcd" "$DESK/is"`, "sh"}, argv...)
	}
	c := exec.CommandContext(d.Context(), argv[0], argv[1:]...)
	c.Env = []string{"PATH=" + filepath.Join(d.dir, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "DESK=" + d.dir}
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

// old makes a directory one that was written to last two days ago.
func (d *desk) old(path string) {
	d.Helper()
	ago := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(d.dir, path), ago, ago); err != nil {
		d.Fatal(err)
	}
}

// spans are the commands in the row of a table that begins so.
func spans(t *testing.T, page, row string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, there := strings.Cut(string(text), "\n| "+row)
	line, _, _ := strings.Cut(rest, "\n")
	for i, part := range strings.Split(line, "`") {
		if i%2 == 1 {
			all = append(all, part)
		}
	}
	if !there || len(all) == 0 {
		t.Fatalf("%s has no row %q with commands", page, row)
	}
	return all
}

const etcdManifest = "etc/kubernetes/manifests/etcd.yaml"

// The commands of the page are pasted where they must not be, and change nothing there.
func TestTheRecoveryStops(t *testing.T) {
	steps := commands(t, quorumPage, "/root/etcd-recovery")
	for name, c := range map[string]struct {
		change func(*desk)
		pasted []string
	}{
		"the cluster has its quorum": {func(d *desk) { d.write("metrics", aLeader) }, steps[:1]},
		"etcd does not answer":       {func(d *desk) { d.write("metrics", "") }, steps[:1]},
		"a recovery of long ago": {func(d *desk) {
			d.write("root/etcd-recovery/data/member/db", "long ago")
			d.old("root/etcd-recovery")
		}, steps[:1]},
		"the second step alone": {func(*desk) {}, steps[1:2]},
		"the third step alone":  {func(*desk) {}, steps[2:3]},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			c.change(d)
			before := d.has(etcdManifest)
			if said, ok := d.paste(c.pasted...); ok || d.has(etcdManifest) != before {
				t.Errorf("it goes on: %s", said)
			}
		})
	}
}

func TestTheRecoveryIsRepeatedUntilItHasEnded(t *testing.T) {
	d := newDesk(t)
	whole := d.has(etcdManifest)
	steps := commands(t, quorumPage, "/root/etcd-recovery")
	must := func(commands ...string) {
		t.Helper()
		if said, ok := d.paste(commands...); !ok {
			t.Fatalf("it ends: %s", said)
		}
	}
	d.program("cp", cutOff)
	if said, ok := d.paste(steps[0]); ok {
		t.Fatalf("it goes on although its copy was cut off: %s", said)
	}
	d.write("metrics", "") // etcd has ended
	for range 2 {
		must(steps[0])
		d.write("metrics", aLeader) // the only member has one
		must(steps[1])
		if !strings.Contains(d.has(etcdManifest), "--force-new-cluster") {
			t.Errorf("etcd is started with %s", d.has(etcdManifest))
		}
	}
	if d.has("root/etcd-recovery/data/member/db") != "today" || d.exists("root/etcd-recovery/data/part") {
		t.Error("the copy is not what etcd had")
	}
	d.write("var/lib/etcd/member/db", "damaged")
	must(spans(t, quorumPage, "etcd does not start")...)
	if got := d.has("var/lib/etcd/member/db"); got != "today" {
		t.Errorf("etcd has %q again", got)
	}
	must(steps[2])
	if d.has(etcdManifest) != whole {
		t.Errorf("etcd is started with %s", d.has(etcdManifest))
	}
	// The new masters join, and etcd restarts meanwhile.
	d.write("metrics", "")
	for _, step := range steps {
		if said, ok := d.paste(step); ok || d.has(etcdManifest) != whole {
			t.Errorf("it goes on: %s", said)
		}
	}
}

// What ends the first step leaves a whole manifest, which a repeated step finds, however late.
func TestTheFirstStepKeepsTheManifest(t *testing.T) {
	for _, page := range []struct{ path, directory string }{{quorumPage, "root/etcd-recovery"}, {restorePage, "root/etcd-restore"}} {
		step := commands(t, page.path, "/"+page.directory)[0]
		for name, c := range map[string]struct {
			programs map[string]string
			then     func(*desk)
		}{
			"the disk is full": {map[string]string{"cp": fullDisk}, func(*desk) {}},
			"the disk is full, and the cluster has its quorum again": {map[string]string{"cp": fullDisk}, func(d *desk) { d.write("metrics", aLeader) }},
			"the power is cut":              {map[string]string{"sync": toDisk, "rm": powerCut}, func(*desk) {}},
			"the copy of the data is moved": {map[string]string{"cp": cutOff}, func(d *desk) { d.moved(page.path) }},
			"a day passes":                  {map[string]string{"cp": cutOff}, func(d *desk) { d.old(page.directory) }},
		} {
			t.Run(page.directory+": "+name, func(t *testing.T) {
				d := newDesk(t)
				whole := d.has(etcdManifest)
				for name, script := range c.programs {
					d.program(name, script)
				}
				if said, ok := d.paste(step); ok {
					t.Fatalf("it goes on: %s", said)
				}
				if !d.exists(etcdManifest) {
					d.write("metrics", "") // etcd has ended
				}
				for name := range c.programs {
					d.program(name, `exec /bin/`+name+` "$@"`)
				}
				c.then(d)
				said, ok := d.paste(step)
				if stops := page.path == quorumPage && d.has("metrics") == aLeader; stops {
					if ok || d.has(etcdManifest) != whole {
						t.Errorf("etcd of a cluster that has its quorum is stopped: %s", said)
					}
					return
				}
				if kept := d.has(page.directory + "/etcd.yaml"); !ok || kept != whole || d.exists(etcdManifest) {
					t.Errorf("the manifest that is kept is %q: %s", kept, said)
				}
				if got := d.has(page.directory + "/data/member/db"); got != "today" {
					t.Errorf("the copy of the data is %q", got)
				}
			})
		}
	}
}

// moved does what a page advises if the disk has no room.
func (d *desk) moved(page string) {
	d.Helper()
	d.write("big/.keep", "")
	for _, command := range spans(d.T, page, "`No space left on device`") {
		if strings.Contains(command, "DIRECTORY/") {
			if said, ok := d.paste(strings.ReplaceAll(command, "DIRECTORY", d.dir+"/big")); !ok {
				d.Fatalf("%s: %s", command, said)
			}
		}
	}
	if !d.exists("big/etcd-recovery/etcd.yaml") && !d.exists("big/etcd-restore/etcd.yaml") {
		d.Fatal("it has not moved")
	}
}

// The directory is old, but etcd still has the flag of the second step: the recovery goes on. If
// that directory were moved away, the flag would stay.
func TestARecoveryOfYesterdayGoesOn(t *testing.T) {
	d := newDesk(t)
	whole := d.has(etcdManifest)
	steps := commands(t, quorumPage, "/root/etcd-recovery")
	if said, ok := d.paste(steps[:2]...); !ok {
		t.Fatal(said)
	}
	d.write("metrics", aLeader)
	d.old("root/etcd-recovery")
	if said, ok := d.paste(steps...); !ok || d.has(etcdManifest) != whole {
		t.Errorf("etcd is started with %s: %s", d.has(etcdManifest), said)
	}
}

// restore are the commands of the page up to the one that starts etcd.
func restore(t *testing.T) []string {
	t.Helper()
	steps := commands(t, restorePage, "/root/etcd-restore")
	_, rest, _ := strings.Cut(steps[1], "\n")
	return []string{steps[0], "masters=m1=https://10.0.0.11:2380\n" + rest, steps[2]}
}

// The copy of the data is whole before anything else of it is removed.
func TestTheRestoreKeepsTheData(t *testing.T) {
	for name, mounted := range map[string]bool{"a directory": false, "a mount point": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if d.mounted = mounted; mounted {
				if said, ok := d.paste("true"); !ok {
					t.Skipf("no mount is possible here: %s", said)
				}
				d = newDesk(t)
				d.mounted = true
			}
			steps := restore(t)
			if mounted {
				if said, ok := d.paste(append(steps, spans(t, restorePage, "you want the data of before back")...)...); !ok {
					t.Fatalf("it ends: %s", said)
				}
				if got, kept := d.has("is/member/db"), d.has("root/etcd-restore/data/member/db"); got != "today" || kept != "today" {
					t.Errorf("etcd has %q, and the copy %q", got, kept)
				}
				return
			}
			d.program("cp", cutOff)
			if said, ok := d.paste(steps[0]); ok {
				t.Fatalf("it goes on although its copy was cut off: %s", said)
			}
			_, _ = d.paste(steps[1]) // by a tired person
			if got := d.has("var/lib/etcd/member/db"); got != "today" {
				t.Errorf("etcd has %q, and no copy is whole", got)
			}
			for range 2 {
				for _, step := range steps {
					if said, ok := d.paste(step); !ok {
						t.Fatalf("it ends: %s", said)
					}
				}
				if got, kept := d.has("var/lib/etcd/member/db"), d.has("root/etcd-restore/data/member/db"); got != "restored\n" || kept != "today" {
					t.Errorf("etcd has %q, and the copy %q", got, kept)
				}
			}
			if said, ok := d.paste(append(steps[:1], spans(t, restorePage, "you want the data of before back")...)...); !ok || d.has("var/lib/etcd/member/db") != "today" {
				t.Errorf("etcd has %q: %s", d.has("var/lib/etcd/member/db"), said)
			}
		})
	}
}

func TestTheRestoreStopsAtThatOfLongAgo(t *testing.T) {
	d := newDesk(t)
	d.write("root/etcd-restore/etcd.yaml", "of an earlier version")
	d.write("root/etcd-restore/data/member/db", "long ago")
	d.old("root/etcd-restore")
	if said, ok := d.paste(restore(t)[0]); ok || d.has(etcdManifest) == "" {
		t.Errorf("it goes on: %s", said)
	}
}
