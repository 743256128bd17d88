package versions

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/e2e/breaks"
	"github.com/nodehitch/nodehitch/e2e/lab/image"
)

// build is a folder of programs.
type build struct {
	name, dir string
	// version is what its agent says that it is.
	version string
}

const checkout = "../.."

// current is this tree, as `make build` has built it.
func current(t *testing.T) build {
	t.Helper()
	dir := filepath.Join(checkout, "bin")
	if named := os.Getenv("NODEHITCH_BIN"); named != "" {
		dir = named
	}
	return known(t, "new", dir)
}

// oldest is built once into the cache, from the commit that the file oldest names. A
// shallow clone, or a tree without one, lacks that commit: the test is skipped. A whole
// clone has to have it.
func oldest(t *testing.T) build {
	t.Helper()
	text, err := os.ReadFile("oldest")
	if err != nil {
		t.Fatal(err)
	}
	commit, why, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if why == "" {
		t.Fatal("the file oldest has to say why it is that commit")
	}
	full, err := git(t, "rev-parse", "--verify", "--quiet", commit+"^{commit}")
	if err != nil {
		refuse := t.Skipf
		if shallow, err := git(t, "rev-parse", "--is-shallow-repository"); err == nil && strings.TrimSpace(string(shallow)) == "false" {
			refuse = t.Fatalf
		}
		refuse("this clone lacks commit %s, the oldest supported build: `git fetch --unshallow`", commit)
	}
	cache := os.Getenv("NODEHITCH_CACHE")
	if cache == "" {
		cache = image.DefaultCache
	}
	dir := filepath.Join(cache, "versions-"+strings.TrimSpace(string(full)))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		archive, err := git(t, "archive", "--format=tar", commit)
		if err != nil {
			t.Fatal(err)
		}
		source := t.TempDir()
		tar := exec.CommandContext(t.Context(), "tar", "-x", "-C", source)
		tar.Stdin = bytes.NewReader(archive)
		run(t, tar)
		compile(t, source, commit)
		// Another test may have built it meanwhile: it is the same.
		if err := os.Rename(keep(t, filepath.Join(source, "bin"), dir), dir); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	return known(t, "old", dir)
}

// keep copies a folder of programs beside the folder that it is to become, so that a
// rename brings it there whole.
func keep(t *testing.T, from, to string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+".new-")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(from))
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// newer is this tree with newer.patch.
func newer(t *testing.T) build {
	t.Helper()
	source := t.TempDir()
	if err := breaks.Copy(t.Context(), checkout, source); err != nil {
		t.Fatal(err)
	}
	if err := applyNext(t, source); err != nil {
		t.Fatal(err)
	}
	generate := exec.CommandContext(t.Context(), "go", "generate", "./shared/...", "./controller/...")
	generate.Dir = source
	run(t, generate)
	compile(t, source, "newer")
	return known(t, "newer", filepath.Join(source, "bin"))
}

// applyNext applies newer.patch to the files in dir.
func applyNext(t *testing.T, dir string, args ...string) error {
	t.Helper()
	patch, err := filepath.Abs("newer.patch")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "git", append(append([]string{"apply"}, args...), patch)...)
	cmd.Dir = dir
	// In a folder of a repository git would take paths from the root of that.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("newer.patch no longer applies: make its changes in the code as it is now by hand, and replace its diff by `git diff -U1` (%w: %s)", err, out)
	}
	return nil
}

// compile builds the programs as `make build` does.
func compile(t *testing.T, source, version string) {
	t.Helper()
	make := exec.CommandContext(t.Context(), "make", "build-lab", "VERSION="+version)
	make.Dir = source
	run(t, make)
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func git(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = checkout
	return cmd.Output()
}

// known is a build that is there.
func known(t *testing.T, name, dir string) build {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "nodehitch-agent-amd64"), "version").Output()
	if err != nil {
		t.Fatalf("the %s agent does not say its version: %v: run `make build`", name, err)
	}
	fields := strings.Fields(string(out))
	if len(fields) == 0 {
		t.Fatalf("the %s agent says that its version is %q", name, out)
	}
	return build{name: name, dir: dir, version: fields[len(fields)-1]}
}

// put copies a program of the build into dir, whatever runs there.
func (b build) put(program, dir string) error {
	content, err := os.ReadFile(filepath.Join(b.dir, program))
	if err != nil {
		return err
	}
	fresh := filepath.Join(dir, program+".new")
	if err := os.WriteFile(fresh, content, 0o755); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(dir, program))
}

func (b build) String() string { return fmt.Sprintf("%s (%s)", b.name, b.version) }

// A change of the code takes newer.patch with it.
func TestTheNextReleaseIsUpToDate(t *testing.T) {
	root, err := filepath.Abs(checkout)
	if err != nil {
		t.Fatal(err)
	}
	if err := applyNext(t, root, "--check"); err != nil {
		t.Error(err)
	}
}
