package controllerfault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The points of a commit, in their order. A commit that is killed before its header is
// written has no effect; one that is killed after it is done, but not acknowledged.
const (
	begins     = "begins"      // nothing is written
	pagesLie   = "pages-lie"   // its pages are written and not synced
	headerNext = "header-next" // its pages are on the disk and nothing names them
	headerLies = "header-lies" // its header is written and not synced
	committed  = "committed"   // it is on the disk, and not acknowledged
)

// points is where each lies in bbolt's tx.go: behind this line.
var points = map[string]string{
	begins:     "\t// TODO(benbjohnson): Use vectorized I/O to write out dirty pages.\n",
	pagesLie:   "\t\t// gofail: var beforeSyncDataPages struct{}\n",
	headerNext: "\t// gofail: var beforeWriteMetaError string\n\t// return errors.New(beforeWriteMetaError)\n",
	headerLies: "\t\t// gofail: var beforeSyncMetaPage struct{}\n",
	committed:  "\t// Finalize the transaction.\n",
}

// failpointEnv is <point>:<n>: the n-th time that the process passes the point is
// the end of it.
const failpointEnv = "NODEHITCH_TEST_FAILPOINT"

const failpointSource = `package bbolt

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var (
	failpointName, failpointAt, _ = strings.Cut(os.Getenv("` + failpointEnv + `"), ":")
	failpointPassed               atomic.Int64
)

func failpoint(name string) {
	if name != failpointName {
		return
	}
	if strconv.FormatInt(failpointPassed.Add(1), 10) == failpointAt {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
`

var built struct {
	sync.Once
	binary string
	err    error
}

// withFailpoints is a controller that can be killed inside of a commit. It is built
// once for all tests.
func withFailpoints(t *testing.T) string {
	t.Helper()
	built.Do(func() { built.binary, built.err = build(t.Context()) })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.binary
}

func build(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/bbolt").Output()
	if err != nil {
		return "", err
	}
	bbolt := strings.TrimSpace(string(out))
	patched := filepath.Join(scratch, "bbolt")
	if err := os.CopyFS(patched, os.DirFS(bbolt)); err != nil {
		return "", err
	}
	tx := filepath.Join(patched, "tx.go")
	source, err := os.ReadFile(tx)
	if err != nil {
		return "", err
	}
	for point, line := range points {
		if bytes.Count(source, []byte(line)) != 1 {
			return "", fmt.Errorf("bbolt has changed: %s does not have exactly once the line %q of the point %s", tx, line, point)
		}
		source = bytes.Replace(source, []byte(line), []byte(line+"\tfailpoint(\""+point+"\")\n"), 1)
	}
	if err := errors.Join(overwrite(tx, source), overwrite(filepath.Join(patched, "failpoint.go"), []byte(failpointSource))); err != nil {
		return "", err
	}
	// Files of the module cache cannot be overlaid, so the module is replaced.
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("../..", name))
		if name == "go.mod" {
			content = fmt.Appendf(content, "\nreplace go.etcd.io/bbolt => %s\n", patched)
		}
		if err := errors.Join(err, overwrite(filepath.Join(scratch, name), content)); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(scratch, "nodehitch-controller")
	overlay, err := newer()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-modfile", filepath.Join(scratch, "go.mod"), "-overlay", overlay, "-o", binary, "../../controller")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` does, whose cached packages are used so
	cmd.Stderr = os.Stderr
	return binary, cmd.Run()
}

// newerEnv makes the controller one of a later version, whose store has another schema:
// every record has one member more. It upgrades the store on one thread, because strace
// counts the calls of each thread on their own.
const newerEnv = "NODEHITCH_TEST_NEWER"

const newerSource = `package store

import (
	"os"
	"runtime"
	"slices"
)

func init() {
	if os.Getenv("` + newerEnv + `") == "" {
		return
	}
	runtime.LockOSThread()
	migrations = append(migrations, func(w writer) error {
		for _, bucket := range recordBuckets {
			texts := map[string][]byte{}
			for key, value := range w.scan(bucket, "") {
				text, err := textOf(bucket, key, value)
				if err != nil {
					return err
				}
				texts[key] = slices.Concat([]byte("{\"later\":true,"), text[1:])
			}
			for key, text := range texts {
				if err := w.put(bucket, key, summed(bucket, key, text)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
`

// newer returns the overlay that adds this to the store.
func newer() (string, error) {
	store, err := filepath.Abs("../../controller/store")
	if err != nil {
		return "", err
	}
	added, overlay := filepath.Join(scratch, "newer.go"), filepath.Join(scratch, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(store, "newer.go"): added}})
	return overlay, errors.Join(err, overwrite(added, []byte(newerSource)), overwrite(overlay, text))
}

// overwrite writes a file in the place of one that may be read-only, as all are in
// the module cache.
func overwrite(path string, content []byte) error {
	_ = os.Remove(path)
	return os.WriteFile(path, content, 0o600)
}

// scratch is a folder for what all tests share.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "controllerfault-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}
