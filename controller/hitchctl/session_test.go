package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the recorded sessions anew")

// session is what an operator types and reads, as text.
type session struct {
	text  strings.Builder
	typed int
}

// cmdSession is `session WHY LINE`, which runs a shell's line and records what it prints;
// `session -interrupt TEXT WHY LINE`, which presses Ctrl-C once it has printed the text; and
// `session compare FILE`, which compares the record with a file of testdata.
func cmdSession(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	if args[0] == "compare" {
		w.session.compare(ts, args[1])
		return
	}
	until := ""
	if args[0] == "-interrupt" {
		until, args = args[1], args[2:]
	}
	out, code := typeLine(ts, args[1], until)
	w.session.typed++
	fmt.Fprintf(&w.session.text, "# %d. %s\n$ %s\n%s(exit code %d)\n\n", w.session.typed, args[0], args[1], anonymous(ts, out), code)
}

// typeLine runs a line in a window of 80 columns. With until it presses Ctrl-C as soon as
// the line has printed that.
func typeLine(ts *testscript.TestScript, line, until string) (string, int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if until != "" {
		line = "exec " + line // the exit code is not the shell's
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"NODEHITCH_SERVER", "NODEHITCH_CONFIG", "HOME", "PATH", "LANG", "ID"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "COLUMNS=80")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches all of the line
	out := &printed{}
	cmd.Stdout, cmd.Stderr = out, out
	ts.Check(cmd.Start())
	if until != "" {
		out.await(ctx, ts, until)
		ts.Check(syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%s: %v", line, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// printed is what a command has printed so far.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func (p *printed) await(ctx context.Context, ts *testscript.TestScript, text string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.String(), text) {
		select {
		case <-ctx.Done():
			ts.Fatalf("no %q in: %s", text, p)
		case <-tick.C:
		}
	}
}

// changing is what is another in each run, and what stands for it in the record.
var changing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d{4,5}`), "127.0.0.1:8443"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "<token id>"},
}

func anonymous(ts *testscript.TestScript, text string) string {
	text = strings.ReplaceAll(text, filepath.Join(ts.Getenv("DATA"), "s"), "/run/nodehitch/controller.sock")
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "~")
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.instead)
	}
	return text
}

func (s *session) compare(ts *testscript.TestScript, name string) {
	path := filepath.Join(ts.Getenv("TESTDATA"), name)
	if *update {
		ts.Check(os.WriteFile(path, []byte(s.text.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	ts.Check(err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(s.text.String(), "\n")); diff != "" {
		ts.Fatalf("the session is another (-%s +now; -update writes it anew):\n%s", name, diff)
	}
}

var answer = regexp.MustCompile(`(?ms)^# (\d+)\. .*?^\$ [^\n]*\n(.*?)^\(exit code (\d+)\)$`)

// Exit code 2 is a command line that is wrong, and the help has what would be right. Exit code 1
// is one that is right and has failed, and the answer has the command that comes next.
func TestEachMistakeHasAnExitCodeByTheRule(t *testing.T) {
	text, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	answers := answer.FindAllStringSubmatch(string(text), -1)
	if len(answers) != 30 {
		t.Errorf("found %d answers, want 30", len(answers))
	}
	help := regexp.MustCompile("\nSee `hitchctl[^`]* --help`\\.\n$")
	next := regexp.MustCompile("`(hitchctl|systemctl|export|chmod) [^`]+`")
	for _, a := range answers {
		switch a[3] {
		case "2":
			if !help.MatchString(a[2]) {
				t.Errorf("mistake %s is one of the command line, and the answer names no help:\n%s", a[1], a[2])
			}
		case "1":
			if help.MatchString(a[2]) || !next.MatchString(a[2]) {
				t.Errorf("mistake %s is none of the command line, and the answer has no command, or the help:\n%s", a[1], a[2])
			}
		}
	}
}
