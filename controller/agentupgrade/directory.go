package agentupgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// machines maps what uname -m prints to GOARCH, for the systems that the agent runs on.
var machines = map[string]string{
	"x86_64": "amd64", "amd64": "amd64",
	"aarch64": "arm64", "arm64": "arm64",
	"ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64",
}

// File begins the name of an agent's file; its GOARCH follows.
const File = "nodehitch-agent-"

// Directory is the agents that the controller carries. It remembers what it has read of a
// file for as long as the file stays the same. Its methods may be called at the same time.
type Directory struct {
	Path string

	mu   sync.Mutex
	read map[string]carried // by GOARCH
}

// carried is what is known of a file: of the one with this time and size.
type carried struct {
	modified time.Time
	build    api.WantedAgent
}

// Open opens the agent for an architecture, by its GOARCH or as uname -m prints it. The caller
// closes it. Its error is a not-found for an architecture without an agent.
func (d *Directory) Open(machine string) (*os.File, api.WantedAgent, error) {
	arch, known := machines[machine]
	if !known {
		return nil, api.WantedAgent{}, api.NewProblem(api.ProblemNotFound, fmt.Sprintf("there is no agent for the architecture %.40q; known are %s",
			machine, strings.Join(slices.Sorted(maps.Keys(machines)), ", ")))
	}
	file, err := os.Open(filepath.Join(d.Path, File+arch))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.WantedAgent{}, api.NewProblem(api.ProblemNotFound, fmt.Sprintf("this controller carries no agent for %s: put %s%s into its agentDirectory", arch, File, arch))
	}
	if err != nil {
		return nil, api.WantedAgent{}, fmt.Errorf("opening the agent: %w", err)
	}
	build, err := d.build(arch, file)
	if err != nil {
		return nil, build, errors.Join(fmt.Errorf("reading the agent: %w", err), file.Close())
	}
	return file, build, nil
}

// Build is the agent for an architecture. One that cannot be read is none: the next call reads
// again.
func (d *Directory) Build(machine string) (build api.WantedAgent, carried bool) {
	file, build, err := d.Open(machine)
	if err != nil {
		return build, false
	}
	file.Close()
	return build, true
}

// Builds are the agents by GOARCH.
func (d *Directory) Builds() map[string]api.WantedAgent {
	builds := map[string]api.WantedAgent{}
	for _, arch := range machines {
		if build, carried := d.Build(arch); carried {
			builds[arch] = build
		}
	}
	return builds
}

// build reads a file that is not known yet, for one caller at a time and never as a
// whole: the client need not be authenticated. It leaves the file at its
// beginning.
func (d *Directory) build(arch string, file *os.File) (api.WantedAgent, error) {
	info, err := file.Stat()
	if err != nil {
		return api.WantedAgent{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.read[arch]; c.build.SHA256 != "" && c.modified.Equal(info.ModTime()) && c.build.SizeBytes == info.Size() {
		return c.build, nil
	}
	sum := sha256.New()
	found, err := version.Of(io.TeeReader(file, sum))
	if err != nil {
		return api.WantedAgent{}, err
	}
	if _, err := io.Copy(sum, file); err != nil {
		return api.WantedAgent{}, err
	}
	build := api.WantedAgent{Version: found, SHA256: hex.EncodeToString(sum.Sum(nil)), SizeBytes: info.Size()}
	if d.read == nil {
		d.read = make(map[string]carried)
	}
	d.read[arch] = carried{info.ModTime(), build}
	_, err = file.Seek(0, io.SeekStart)
	return build, err
}
