// Package install makes the agent a service of this machine: its systemd unit,
// enabled and started. The binary is already in place, put there by the package, by the
// bootstrap of user_data or by a person.
package install

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/shared/durable"
)

// Unit is the name of the service.
const Unit = "nodehitch-agent.service"

// Binary is where the unit expects an unpackaged agent.
const Binary = "/usr/local/bin/nodehitch-agent"

// PackagedBinary is the agent of the package, which brings its own unit. It is preferred.
const PackagedBinary = "/usr/bin/nodehitch-agent"

// unitFile is the unit; it says itself what is hardened, what is not, and why.
//
//go:embed nodehitch-agent.service
var unitFile []byte

// Installer says where to install and how to speak to systemd.
type Installer struct {
	// UnitDirectory is /etc/systemd/system.
	UnitDirectory string
	// Packaged is the package's agent. If it exists, its unit does too, and none is written.
	Packaged string
	// Binary has to exist there if Packaged does not.
	Binary string
	// Given are files that cloud-init has written, or a person: they have reached the
	// disk before the unit is enabled. One that does not exist is not needed.
	Given []string
	// Systemctl runs systemctl with arguments.
	Systemctl func(ctx context.Context, args ...string) error
	// Out gets one line for each thing done.
	Out io.Writer
}

// Host installs on this machine, where configuration is the agent's configuration file.
func Host(configuration string, out io.Writer) Installer {
	return Installer{UnitDirectory: "/etc/systemd/system", Packaged: PackagedBinary, Binary: Binary,
		Given: []string{configuration, "/var/lib/nodehitch/bootstrap.py"}, Systemctl: systemctl, Out: out}
}

// Install may be run at any time: it writes the unit only if it is missing or different,
// enables it, and (re)starts the agent, so that the binary in place is the one that runs.
// An enabled unit marks the machine as installed (see the bootstrap's unit), so it comes
// after everything that a crash could undo.
func (i Installer) Install(ctx context.Context) error {
	// systemd reads an unknown unit when it is started. Making it read all units again
	// would take longer than everything else here.
	enable := []string{"enable", "--no-reload", Unit}
	if !executable(i.Packaged) {
		if !executable(i.Binary) {
			return fmt.Errorf("%s does not exist or is not executable; put the agent's binary there first, because the unit starts it from there", i.Binary)
		}
		old, err := i.unit()
		if err != nil {
			return err
		}
		if old != nil {
			enable = []string{"enable", Unit}
		}
	}
	for _, path := range i.Given {
		if err := durable.File(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := i.Systemctl(ctx, enable...); err != nil {
		return err
	}
	if err := i.Systemctl(ctx, "restart", Unit); err != nil {
		return fmt.Errorf("%w; see `journalctl -u %s`", err, Unit)
	}
	fmt.Fprintln(i.Out, "enabled and started:", Unit)
	return nil
}

// unit writes the unit if it is missing or different, and returns what was there.
func (i Installer) unit() (old []byte, err error) {
	path := filepath.Join(i.UnitDirectory, Unit)
	old, err = os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || bytes.Equal(old, unitFile) {
		return old, err
	}
	if err := durable.Write(path, unitFile, 0o644); err != nil {
		return old, err
	}
	fmt.Fprintln(i.Out, "written:", path)
	return old, nil
}

// Follow brings the unit of an installed agent along after the agent has upgraded itself.
// It starts nothing; what is new in the unit counts from the next start on.
func (i Installer) Follow(ctx context.Context) error {
	old, err := i.unit()
	if err != nil || bytes.Equal(old, unitFile) {
		return err
	}
	return i.Systemctl(ctx, "daemon-reload")
}

// Restart has systemd restart the agent, and does not wait.
func (i Installer) Restart(ctx context.Context) error {
	return i.Systemctl(ctx, "restart", "--no-block", Unit)
}

// Later has systemd run a command once after this time, without the agent.
func Later(ctx context.Context, after time.Duration, argv ...string) error {
	args := []string{"--quiet", "--collect", "--no-block", "--on-active=" + strconv.Itoa(int(after.Seconds())+1) + "s", "--timer-property=AccuracySec=1s", "--"}
	return command(ctx, "systemd-run", append(args, argv...)...)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func systemctl(ctx context.Context, args ...string) error {
	return command(ctx, "systemctl", args...)
}

func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
