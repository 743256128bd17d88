package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	wire "github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/version"
)

// machines maps what uname -m says to GOARCH, for the systems that the agent runs on.
var machines = map[string]string{
	"x86_64": "amd64", "amd64": "amd64",
	"aarch64": "arm64", "arm64": "arm64",
	"ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64",
}

// agentFiles serves the agents of a directory. It remembers their digests for as
// long as the files stay the same.
type agentFiles struct {
	dir string

	mu      sync.Mutex
	digests map[string]agentDigest
}

// agentDigest is what is known of a file: of the one with this time and size.
type agentDigest struct {
	modified time.Time
	size     int64
	sha256   string
	version  string
}

// GetAgent serves the agent for one architecture.
func (s *Handler) GetAgent(ctx context.Context, r GetAgentRequestObject) (GetAgentResponseObject, error) {
	arch, ok := machines[r.Arch]
	if !ok {
		known := make([]string, 0, len(machines))
		for name := range machines {
			known = append(known, name)
		}
		slices.Sort(known)
		return nil, wire.NewProblem(wire.ProblemNotFound, fmt.Sprintf("there is no agent for the architecture %.40q; known are %s", r.Arch, strings.Join(known, ", ")))
	}
	file, digest, err := s.agents.open(arch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wire.NewProblem(wire.ProblemNotFound, fmt.Sprintf("this controller carries no agent for %s: put nodehitch-agent-%s into its agentDirectory (%s)", arch, arch, s.agents.dir))
	}
	if err != nil {
		return nil, err
	}
	return content{request: callOf(ctx).request, file: file, sha256: digest}, nil
}

func (a *agentFiles) open(arch string) (*os.File, string, error) {
	file, err := os.Open(a.path(arch))
	if err != nil {
		return nil, "", fmt.Errorf("opening the agent: %w", err)
	}
	digest, err := a.digest(arch, file)
	if err != nil {
		file.Close()
		return nil, "", fmt.Errorf("reading the agent: %w", err)
	}
	return file, digest.sha256, nil
}

func (a *agentFiles) path(arch string) string {
	return filepath.Join(a.dir, "nodehitch-agent-"+arch)
}

// wanted is the agent that a node of the architecture should have, nil for none: the one
// that is served, if it is of the controller's own version. One that somebody put there
// may be newer than the controller, and versions of builds have no order.
func (a *agentFiles) wanted(arch string) *wire.WantedAgent {
	if _, known := machines[arch]; !known {
		return nil
	}
	info, err := os.Stat(a.path(arch))
	if err != nil {
		return nil
	}
	d, known := a.known(arch, info)
	if !known {
		file, err := os.Open(a.path(arch))
		if err != nil {
			return nil
		}
		defer file.Close()
		if d, err = a.digest(arch, file); err != nil {
			return nil
		}
	}
	if d.version != version.Version {
		return nil
	}
	return &wire.WantedAgent{Version: d.version, SHA256: d.sha256, SizeBytes: d.size}
}

func (a *agentFiles) known(arch string, info fs.FileInfo) (agentDigest, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.digests[arch]
	return d, d.sha256 != "" && d.modified.Equal(info.ModTime()) && d.size == info.Size()
}

// digest reads a file that is not known yet, and leaves it at its beginning.
func (a *agentFiles) digest(arch string, file *os.File) (agentDigest, error) {
	info, err := file.Stat()
	if err != nil {
		return agentDigest{}, err
	}
	if d, known := a.known(arch, info); known {
		return d, nil
	}
	program, err := io.ReadAll(file)
	if err != nil {
		return agentDigest{}, err
	}
	sum := sha256.Sum256(program)
	d := agentDigest{modified: info.ModTime(), size: info.Size(), sha256: hex.EncodeToString(sum[:]), version: version.Of(program)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.digests == nil {
		a.digests = make(map[string]agentDigest)
	}
	a.digests[arch] = d
	_, err = file.Seek(0, io.SeekStart)
	return d, err
}
