package clustermember

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/nodehitch/nodehitch/shared/api"
)

// File is what the program reads that joins the machine. It contains secrets.
const (
	File     = "/etc/nodehitch/cluster.json"
	fileMode = 0o600
)

// fileVersion changes when a program that reads the file would misunderstand it.
const fileVersion = 1

// file is the form of File.
type file struct {
	Version int `json:"version"`
	// Digest is sha256:<hex> of the rest: two files with one digest say the same.
	Digest   string   `json:"digest,omitempty"`
	Role     api.Role `json:"role"`
	ServerID string   `json:"serverId"`
	api.ClusterSection
}

func content(desired *api.NodeConfig, serverID string) ([]byte, error) {
	f := file{Version: fileVersion, Role: desired.Role, ServerID: serverID, ClusterSection: *desired.Cluster}
	rest, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(rest)
	f.Digest = "sha256:" + hex.EncodeToString(sum[:])
	text, err := json.MarshalIndent(f, "", "  ")
	return append(text, '\n'), err
}
