package containerdconf

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/nodehitch/nodehitch/agent/converge"
	"github.com/nodehitch/nodehitch/agent/machine/host"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	service    = "containerd.service"
	configPath = "/etc/containerd/config.toml" // unless its command line names another one
)

// OnMachine is how a machine's containerd is configured.
type OnMachine struct {
	// Said is its version as it says it.
	Said    string
	Version Version
	// Path is that of its configuration.
	Path    string
	Content []byte // of the file; without one, it is empty
	Dump    []byte // what containerd makes of it
	Config  Config
}

// ReadMachine asks the machine's containerd what its version is, and what it makes of the
// configuration that it runs with.
func ReadMachine(ctx context.Context, machine *host.Host) (*OnMachine, error) {
	said, err := machine.Programs.ContainerdVersion(ctx)
	if err != nil {
		return nil, converge.Wait(api.ReasonEngineNotRunning, "the version of %s is unknown: %v", service, err)
	}
	m := &OnMachine{Said: said, Path: configPath}
	if m.Version, err = ParseVersion(said); err != nil {
		return nil, converge.Wait(api.ReasonEngineNotRunning, "%v", err)
	}
	argv, err := machine.Units.CommandLine(ctx, service)
	if err != nil {
		return nil, err
	}
	if paths := slices.Concat(host.FlagValues(argv, "--config"), host.FlagValues(argv, "-c")); len(paths) > 0 {
		m.Path = paths[len(paths)-1]
	}
	m.Content, err = machine.Files.Read(m.Path)
	given := []byte(nil) // the file itself
	if errors.Is(err, fs.ErrNotExist) {
		m.Content, given, err = []byte{}, []byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	m.Dump, err = machine.Programs.ContainerdConfig(ctx, m.Path, given)
	if refusal := host.Refusal(err); refusal != nil {
		return nil, converge.Wait(api.ReasonEngineConfigInvalid, "containerd refuses %s or a file that it imports, which are not changed: %s", m.Path, refusal.Output)
	}
	if err != nil {
		return nil, err
	}
	if m.Config, err = Read(m.Dump, m.Version); err != nil {
		return nil, converge.Wait(api.ReasonEngineConfigInvalid, "%s: %v", m.Path, err)
	}
	return m, nil
}
