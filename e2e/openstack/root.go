package openstack

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/process"
)

//go:embed enter.sh
var enterScript []byte

// root is the root file system of the services and the first process in it, with which
// all others and the mounts go.
type root struct {
	supervisor *process.Process // unshare: it kills the first process when it is killed
	first      string           // that one's id, as the host sees it
}

// environment of whatever runs inside; the command line's own account is the admin's.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
	"OS_AUTH_URL=" + AuthURL, "OS_USERNAME=admin", "OS_PASSWORD=" + password, "OS_PROJECT_NAME=admin",
	"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default", "OS_IDENTITY_API_VERSION=3",
}

// enterRoot lays the folder dir/upper over the layers, the uppermost first, and starts
// the first process.
func enterRoot(ctx context.Context, l *lab.Lab, dir string, layers []string) (*root, error) {
	script := filepath.Join(dir, "enter.sh")
	if err := os.WriteFile(script, enterScript, 0o700); err != nil {
		return nil, err
	}
	var complaint bytes.Buffer
	cmd := l.Command(context.Background(), // it outlives ctx
		"unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--propagation", "private",
		"sh", script, strings.Join(layers, ":"), dir)
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r := &root{}
	if r.supervisor, err = process.Start(cmd); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("mounting the root of OpenStack: %w: %s", err, complaint.Bytes()), r.end())
	}
	r.first, err = onlyChild(r.supervisor.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

// onlyChild is the id of the process that unshare has started.
func onlyChild(pid int) (string, error) {
	path := fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)
	found, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	child := strings.TrimSpace(string(found))
	if _, err := strconv.Atoi(child); err != nil {
		return "", fmt.Errorf("%s: %q: want one process", path, child)
	}
	return child, nil
}

// command is a program that runs inside.
func (r *root) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{
		"--target", r.first, "--mount", "--uts", "--net", "--pid", "--root", "--wd", "--",
	}, argv...)...)
	cmd.Env = environment
	return cmd
}

// run runs a short program inside; its error holds the end of what it said.
func (r *root) run(ctx context.Context, argv ...string) ([]byte, error) {
	var out, complaint bytes.Buffer
	cmd := r.command(ctx, argv...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(append(complaint.Bytes(), out.Bytes()...))
		return out.Bytes(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text[max(0, len(text)-3000):])
	}
	return out.Bytes(), nil
}

func (r *root) end() error {
	if err := r.supervisor.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.supervisor.Ended()
	return nil
}
