package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab/qapi"
)

func (m *vm) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	return m.exec(ctx, nil, argv)
}

// channelLimit is how much Push sends through the agent's channel, which
// carries 3 MB in a second. More comes as a disk, which takes half a second
// whatever its size.
const channelLimit = 1 << 20

func (m *vm) Push(ctx context.Context, path string, mode fs.FileMode, data []byte) error {
	ctx, cancel := within(ctx, vmBoot)
	defer cancel()
	permissions := fmt.Sprintf("%#o", mode.Perm())
	if len(data) > channelLimit {
		return m.pushDisk(ctx, path, permissions, data)
	}
	_, err := m.exec(ctx, data, []string{"install", "-D", "-m", permissions, "/dev/stdin", path})
	return err
}

// pushDisk plugs the data in as a disk for as long as the guest copies it.
func (m *vm) pushDisk(ctx context.Context, path, permissions string, data []byte) error {
	run := m.current()
	if run.over() {
		return fmt.Errorf("%s: pushing %s: the machine is off", m.spec.Name, path)
	}
	id := "push-" + newID()
	parcel := Disk{VolumeID: id, Path: m.path(id)}
	sectors := (len(data) + 511) / 512 * 512
	if err := os.WriteFile(parcel.Path, append(data, make([]byte, sectors-len(data))...), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(parcel.Path) }()
	if err := m.plug(ctx, run, parcel); err != nil {
		return fmt.Errorf("%s: pushing %s: %w", m.spec.Name, path, err)
	}
	err := m.waitLinked(ctx, parcel, 1)
	if err == nil {
		_, err = m.Exec(ctx, "sh", "-c", `head -c "$1" -- "$2" | install -D -m "$3" /dev/stdin "$4"`, "sh",
			fmt.Sprint(len(data)), parcel.Link(), permissions, path)
	}
	return errors.Join(err, m.unplug(ctx, run, parcel))
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
