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

type agentDigest struct {
	modified time.Time
	size     int64
	sha256   string
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
	file, err := os.Open(filepath.Join(a.dir, "nodehitch-agent-"+arch))
	if err != nil {
		return nil, "", fmt.Errorf("opening the agent: %w", err)
	}
	digest, err := a.digest(arch, file)
	if err != nil {
		file.Close()
		return nil, "", fmt.Errorf("reading the agent: %w", err)
	}
	return file, digest, nil
}

func (a *agentFiles) digest(arch string, file *os.File) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.digests[arch]; d.sha256 != "" && d.modified.Equal(info.ModTime()) && d.size == info.Size() {
		return d.sha256, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	if a.digests == nil {
		a.digests = make(map[string]agentDigest)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	a.digests[arch] = agentDigest{modified: info.ModTime(), size: info.Size(), sha256: sum}
	_, err = file.Seek(0, io.SeekStart)
	return sum, err
}
