package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// plainEnvironment is what a program started by Exec finds: nothing of the
// host's leaks into a machine.
var plainEnvironment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root", "LANG=C.UTF-8", "TERM=dumb",
}

// finish runs a command that stands for a program on a node.
func finish(cmd *exec.Cmd, node string, argv []string, stdin []byte) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A daemon that a program leaves behind may hold the pipes open.
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		err = &ExecError{Node: node, Argv: argv, ExitCode: exit.ExitCode(), Stderr: stderr.Bytes()}
	} else if err != nil {
		err = fmt.Errorf("%s: %s: %w", node, strings.Join(argv, " "), err)
	}
	return stdout.Bytes(), err
}

// cloudInitResult is where cloud-init's last stage leaves its result; /run
// is empty after a boot, so it is this boot's.
const cloudInitResult = "/run/cloud-init/result.json"

// waitCloudInit waits for the result and reads it.
func waitCloudInit(ctx context.Context, n Node, every time.Duration) error {
	var verdict []byte
	err := until(ctx, every, func() (bool, error) {
		var err error
		verdict, err = n.Pull(ctx, cloudInitResult)
		if exit := (*ExecError)(nil); errors.As(err, &exit) {
			return false, nil // not there yet
		}
		return err == nil, err
	})
	if err != nil {
		console, _ := n.Console()
		return fmt.Errorf("node %s: waiting for cloud-init: %w; the console ends with:\n%s", n.Name(), err, lastLines(console, 15))
	}
	var result struct {
		V1 struct {
			Datasource string
			Errors     []string
		}
	}
	if err := json.Unmarshal(verdict, &result); err != nil {
		return fmt.Errorf("node %s: reading %s: %w", n.Name(), cloudInitResult, err)
	}
	if len(result.V1.Errors) > 0 {
		return fmt.Errorf("node %s: cloud-init reports: %s", n.Name(), strings.Join(result.V1.Errors, "; "))
	}
	return nil
}
