package trust

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// argvs are the command lines that were seen.
type argvs struct {
	samples int
	argvs   []string
}

// watchArgv reads the command line of every process of this machine, those in
// its containers too, until it is told to stop or the test ends.
func watchArgv(t *testing.T) (stop func() argvs) {
	done, result := make(chan struct{}), make(chan argvs, 1)
	go func() {
		seen, samples := map[string]bool{}, 0
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			samples++
			entries, _ := os.ReadDir("/proc") // a process that has ended was seen before
			for _, e := range entries {
				if _, err := strconv.Atoi(e.Name()); err != nil {
					continue
				}
				if line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && len(line) > 0 {
					seen[string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))] = true
				}
			}
			select {
			case <-done:
				r := argvs{samples: samples}
				for line := range seen {
					r.argvs = append(r.argvs, line)
				}
				slices.Sort(r.argvs)
				result <- r
				return
			case <-tick.C:
			}
		}
	}()
	stop = sync.OnceValue(func() argvs { close(done); return <-result })
	t.Cleanup(func() { stop() })
	return stop
}

// inStore searches the controller's files, all of them but those that are
// there to hold the secret.
func (s *secretive) inStore(a *attempt) {
	hidden := s.all()
	delete(hidden, "a package file") // in blobs/, as docs/controller.md says
	files := 0
	err := filepath.WalkDir(s.Data(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		within := map[string]string{}
		for name, secret := range hidden {
			if name != "the key of "+entry.Name() && (name != "the seal key" || entry.Name() != "seal.key") {
				within[name] = secret
			}
		}
		a.mustNotHold(path, string(content), within)
		return nil
	})
	if err != nil {
		a.Fatal(err)
	}
	a.c.Figure("files", "%d", files)
}

// inFiles searches every file that node and controller write for every secret.
func (s *secretive) inFiles(a *attempt) {
	looked := 0
	err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		looked++
		a.c.Unauthorised(0)
		if path != s.Dir && path != s.ConfigFile() && entry.Type()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
			a.c.Unauthorised(1)
			a.Errorf("%s of the controller has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		a.Fatal(err)
	}
	kept := filepath.Join(s.second.State(), "last-known-good.json")
	for _, path := range []string{s.second.State(), kept, filepath.Join(s.second.State(), "identity.pem")} {
		info, err := os.Stat(path)
		if err != nil {
			a.Error(err)
		} else if looked++; info.Mode().Perm()&0o077 != 0 {
			a.c.Unauthorised(1)
			a.Errorf("%s of the worker has mode %v", path, info.Mode())
		}
	}
	a.c.Figure("files of controller and worker", "%d", looked)
	if text, err := os.ReadFile(kept); err != nil || !strings.Contains(string(text), s.given["the HTTP proxy's password"]) {
		a.Errorf("the worker's last known good does not hold the proxy's password, so this case shows nothing: %s (%v)", text, err)
	}
	s.inFilesOfTheNode(a)
}

func (s *secretive) inFilesOfTheNode(a *attempt) {
	var patterns bytes.Buffer
	for name, secret := range s.all() {
		if name != "the seal key" { // raw bytes, and never on a node
			fmt.Fprintln(&patterns, secret)
		}
	}
	const list = "/run/trust-patterns"
	if err := s.node.Push(a.Context(), list, 0o600, patterns.Bytes()); err != nil {
		a.Fatal(err)
	}
	out, err := s.node.Exec(a.Context(), "sh", "-c",
		"grep -rlaFf "+list+" /etc /var /run /root /home /tmp /srv /usr/local 2>/dev/null | xargs -r stat -c '%a %U %n'")
	if err != nil {
		a.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if fields[2] == list || strings.HasPrefix(fields[2], "/var/lib/cloud/seed/") { // the lab's stand-in for Nova
			continue
		}
		found++
		a.Log(strings.TrimSpace(line))
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil {
			a.Errorf("%s: %v", line, err)
		} else if mode&0o077 != 0 || fields[1] != "root" {
			a.c.Unauthorised(1)
			a.Errorf("a file of the node holds a secret and is %s's with mode %s: %s", fields[1], fields[0], fields[2])
		}
	}
	for _, path := range []string{"/etc/nodehitch/agent.yaml", "/var/lib/nodehitch/agent/identity.pem"} {
		if !strings.Contains(string(out), path) {
			a.Errorf("%s holds no secret, so this case does not find what it looks for:\n%s", path, out)
		}
	}
	a.c.Figure("files of the node that hold one", "%d", found)
}

var coreLimit = regexp.MustCompile(`(?m)^Max core file size\s+0\s+0\s`)

func (s *secretive) inProcesses(a *attempt) {
	pid, err := s.node.Exec(a.Context(), "systemctl", "show", "-p", "MainPID", "--value", "nodehitch-agent")
	if err != nil {
		a.Fatal(err)
	}
	agent := strings.TrimSpace(string(pid))
	read := func(name string) string {
		out, err := s.node.Exec(a.Context(), "cat", "/proc/"+agent+"/"+name)
		if err != nil {
			a.Error(err)
		}
		return string(out)
	}
	local := func(pid int) func(string) string {
		return func(name string) string {
			out, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err != nil {
				a.Error(err)
			}
			return string(out)
		}
	}
	for name, look := range map[string]func(string) string{"agent": read, "controller": local(s.PID()), "worker's agent": local(s.second.PID())} {
		if limits := look("limits"); !coreLimit.MatchString(limits) {
			a.Errorf("the %s may dump core:\n%s", name, limits)
		}
		a.mustNotHold("the environment of the "+name, look("environ"), s.all())
	}
	if unit, err := s.node.Exec(a.Context(), "systemctl", "show", "-p", "LimitCORE", "nodehitch-agent"); err != nil || strings.TrimSpace(string(unit)) != "LimitCORE=0" {
		a.Errorf("the agent's unit has %s (%v)", unit, err)
	}
}
