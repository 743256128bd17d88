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

// machines maps what uname -m prints to GOARCH, for the systems that the agent runs on.
var machines = map[string]string{
	"x86_64": "amd64", "amd64": "amd64",
	"aarch64": "arm64", "arm64": "arm64",
	"ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64",
}

// AgentFile begins the name of an agent's file; its GOARCH follows.
const AgentFile = "nodehitch-agent-"

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
		return nil, wire.NewProblem(wire.ProblemNotFound, fmt.Sprintf("this controller carries no agent for %s: put %s%s into its agentDirectory", arch, AgentFile, arch))
	}
	if err != nil {
		return nil, err
	}
	return content{request: callOf(ctx).request, file: file, sha256: digest.sha256}, nil
}

func (a *agentFiles) open(arch string) (*os.File, agentDigest, error) {
	file, err := os.Open(filepath.Join(a.dir, AgentFile+arch))
	if err != nil {
		return nil, agentDigest{}, fmt.Errorf("opening the agent: %w", err)
	}
	digest, err := a.digest(arch, file)
	if err != nil {
		file.Close()
		return nil, agentDigest{}, fmt.Errorf("reading the agent: %w", err)
	}
	return file, digest, nil
}

// wanted is the agent that a node of the architecture should have, nil for none: the one
// that is served, if it is of the controller's own version. One that an operator put there
// may be newer than the controller, and versions of builds have no order.
func (a *agentFiles) wanted(arch string) *wire.WantedAgent {
	if _, known := machines[arch]; !known {
		return nil
	}
	file, d, err := a.open(arch)
	if err != nil {
		return nil
	}
	file.Close()
	if d.version != version.Version {
		return nil
	}
	return &wire.WantedAgent{Version: d.version, SHA256: d.sha256, SizeBytes: d.size}
}

// digest reads a file that is not known yet, for one caller at a time and never as a
// whole: the client need not be authenticated. It leaves the file at its
// beginning.
func (a *agentFiles) digest(arch string, file *os.File) (agentDigest, error) {
	info, err := file.Stat()
	if err != nil {
		return agentDigest{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.digests[arch]; d.sha256 != "" && d.modified.Equal(info.ModTime()) && d.size == info.Size() {
		return d, nil
	}
	sum := sha256.New()
	found, err := version.Of(io.TeeReader(file, sum))
	if err != nil {
		return agentDigest{}, err
	}
	if _, err := io.Copy(sum, file); err != nil {
		return agentDigest{}, err
	}
	d := agentDigest{modified: info.ModTime(), size: info.Size(), sha256: hex.EncodeToString(sum.Sum(nil)), version: found}
	if a.digests == nil {
		a.digests = make(map[string]agentDigest)
	}
	a.digests[arch] = d
	_, err = file.Seek(0, io.SeekStart)
	return d, err
}
