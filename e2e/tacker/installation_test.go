package tacker

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/packaging/python"
)

// TestInstallation loads the driver by its entry point, as tacker-conductor does, from each
// way to install it. e2e/packaging does so from the package itself.
func TestInstallation(t *testing.T) {
	ways := map[string]func(*installation) (python, path string){"pip": (*installation).pip, "image": (*installation).inImage, "package": (*installation).fromPackage}
	for name, install := range ways {
		t.Run(name, func(t *testing.T) {
			r := results.Begin(t, suite, "installation/"+name, "stevedore loads the driver by its entry point; the file that Tacker compares is the shim")
			i := &installation{t: t, dir: t.TempDir()}
			if out, err := i.command("/usr/bin/python3", "-c", "import stevedore").CombinedOutput(); err != nil {
				t.Skipf("Debian's Python has no stevedore (python3-stevedore): %v: %s", err, out)
			}
			interpreter, path := install(i)
			i.loads(interpreter, path, r)
		})
	}
}

// installation is a machine of Tacker's.
type installation struct {
	t   *testing.T
	dir string
}

func (i *installation) command(argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(i.t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+i.dir, "XDG_CACHE_HOME="+i.dir, "PYTHONDONTWRITEBYTECODE=1", "PIP_DISABLE_PIP_VERSION_CHECK=1")
	return cmd
}

func (i *installation) run(argv ...string) {
	i.t.Helper()
	if out, err := i.command(argv...).CombinedOutput(); err != nil {
		i.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// wheel makes one, and a virtual environment, which has Debian's pip and stevedore.
func (i *installation) wheel() (wheel, environment string) {
	i.t.Helper()
	_, tree := i.fromPackage()
	folder, environment := filepath.Join(i.dir, "wheel"), filepath.Join(i.dir, "environment")
	err := os.Mkdir(folder, 0o700)
	if err == nil {
		wheel, err = python.Wheel(tree, folder, "1.2.3~rc.4", time.Now())
	}
	if err != nil {
		i.t.Fatal(err)
	}
	i.run("/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", environment)
	return filepath.Join(folder, wheel), environment
}

// pip needs no network.
func (i *installation) pip() (interpreter, path string) {
	i.t.Helper()
	wheel, environment := i.wheel()
	interpreter = filepath.Join(environment, "bin/python3")
	i.run("unshare", "--net", interpreter, "-m", "pip", "install", wheel)
	return interpreter, ""
}

// inImage does what the example for containers does, without the container.
func (i *installation) inImage() (interpreter, path string) {
	i.t.Helper()
	wheel, environment := i.wheel()
	dockerfile, err := os.ReadFile("../../docs/examples/conductor/Dockerfile")
	if err != nil {
		i.t.Fatal(err)
	}
	_, step, _ := strings.Cut(string(dockerfile), "\nRUN ")
	step, _, _ = strings.Cut(step, "\n")
	i.run("env", "PATH="+environment+"/bin:"+os.Getenv("PATH"), "sh", "-euc", strings.ReplaceAll(step, "/tmp/nodehitch", filepath.Dir(wheel)))
	return filepath.Join(environment, "bin/python3"), ""
}

// fromPackage lays out what a package installs.
func (i *installation) fromPackage() (interpreter, path string) {
	i.t.Helper()
	path = filepath.Join(i.dir, "dist-packages")
	if err := python.Write("../..", path, "1.2.3~rc.4"); err != nil {
		i.t.Fatal(err)
	}
	return "/usr/bin/python3", path
}

// loads asserts that Python loads the driver, from this installation and no other.
func (i *installation) loads(interpreter, path string, r *results.Case) {
	i.t.Helper()
	standin, err := filepath.Abs("testdata/standin")
	if err != nil {
		i.t.Fatal(err)
	}
	cmd := i.command(interpreter, "testdata/entry_point.py")
	cmd.Env = append(cmd.Env, "PYTHONPATH="+path+":"+standin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var got struct{ Type, File, Version, Script, Stevedore, Python string }
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		i.t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
	}
	r.Figure("Python", "%s", got.Python)
	r.Figure("stevedore", "%s", got.Stevedore)
	for _, file := range []string{got.File, got.Script} {
		if !strings.HasPrefix(file, i.dir) {
			i.t.Errorf("%s is not of this installation", file)
		}
	}
	installed, err := os.ReadFile(got.File)
	if err != nil {
		i.t.Fatal(err)
	}
	if shim, err := os.ReadFile("../../packaging/tacker/shim/nodehitch_mgmt.py"); err != nil || !bytes.Equal(shim, installed) {
		i.t.Errorf("Tacker would hash %s, which is not the shim (%v)", got.File, err)
	}
}
