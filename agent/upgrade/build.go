package upgrade

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Build is one build of the agent. Its content tells it from others; its version is for
// people.
type Build struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// digestOf is the SHA-256 of a file.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// The previous build and a download lie beside the binary: on its file system, where a
// rename replaces it in one step and where programs may run, which is true of neither for
// the state directory on every machine.
const (
	previousSuffix  = ".previous"
	downloadsSuffix = ".new"
)

// Previous is where the previous build of a binary is kept.
func Previous(binary string) string { return beside(binary, previousSuffix) }

// downloads is the directory in which the next build of a binary arrives.
func downloads(binary string) string { return beside(binary, downloadsSuffix) }

func beside(binary, suffix string) string {
	return filepath.Join(filepath.Dir(binary), "."+filepath.Base(binary)+suffix)
}

// replaces is the binary whose previous build this is, "" if it is none.
func replaces(previous string) string {
	name, ok := strings.CutPrefix(filepath.Base(previous), ".")
	name, is := strings.CutSuffix(name, previousSuffix)
	if !ok || !is || name == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(previous), name)
}
