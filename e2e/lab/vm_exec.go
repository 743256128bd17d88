package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab/qapi"
)

func (m *vm) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return m.exec(ctx, nil, argv)
}

// Push goes through the agent's channel.
func (m *vm) Push(ctx context.Context, path string, mode fs.FileMode, data []byte) error {
	_, err := m.exec(ctx, data, []string{"install", "-D", "-m", fmt.Sprintf("%#o", mode.Perm()), "/dev/stdin", path})
	return err
}

func (m *vm) Pull(ctx context.Context, path string) ([]byte, error) {
	return m.exec(ctx, nil, []string{"cat", "--", path})
}

// exec runs a program through the guest agent: argv, output and exit code
// arrive as they are, with no shell and no terminal in between.
func (m *vm) exec(ctx context.Context, stdin []byte, argv []string) ([]byte, error) {
	run := m.current()
	if run.over() {
		return nil, fmt.Errorf("%s: %s: the machine is off", m.spec.Name, argv[0])
	}
	out, err := run.agent.Exec(ctx, qapi.Program{Path: argv[0], Args: argv[1:], Env: plainEnvironment, Stdin: stdin})
	if refused := (*qapi.Error)(nil); errors.As(err, &refused) {
		// As a shell says that there is no such program.
		return nil, &ExecError{Node: m.spec.Name, Argv: argv, ExitCode: 127, Stderr: []byte(refused.Desc)}
	}
	if err == nil && out.ExitCode != 0 {
		err = &ExecError{Node: m.spec.Name, Argv: argv, ExitCode: out.ExitCode, Stderr: out.Stderr}
	} else if err != nil {
		err = fmt.Errorf("%s: %s: %w", m.spec.Name, strings.Join(argv, " "), err)
	}
	return out.Stdout, err
}
