package powercut

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/registry"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const (
	// So much more than the registry itself, and a byte more each time: each image is another one.
	imageBytes = 1 << 20
	imageCuts  = 10
)

func TestPowerCutsOverAnImageLoad(t *testing.T) {
	c := results.Begin(t, "powercut", "image-load", "the power fails at random moments while a registry gets another image: nothing lost, and it ends Running with that image")
	results.LongOnly(t)
	registry.Require(t)
	seed := number(t, envSeed, uint64(time.Now().UnixNano()))
	cuts := int(number(t, envCuts, imageCuts))
	t.Logf("%s=%d", envSeed, seed)
	s := sitetest.Open(t, "../../bin", lab.KindVM)
	l := &loading{t: t, site: s, instance: uuid.NewString(), server: api.Server{ID: uuid.NewString(), Name: "registry"}}
	l.target = &target{chance: rand.New(rand.NewPCG(seed, 3)), lab: s.Lab, at: l.stage, names: [...]string{"not begun", "fetch", "load", "run", "over"}}
	err := l.through(t.Context(), cuts)
	if err != nil {
		l.show()
		t.Error(err)
	}
	c.Lost(l.lost)
	if err := l.target.enough(); err != nil {
		t.Error(err)
	}
	c.Figure("seed", "%d", seed)
	c.Figure("cuts", "%d; hit: %s", l.target.cuts(), l.target)
	c.Figure("images", "%d, %d of them running before the moment of their cut", l.images, l.target.early)
	c.Figure("CPU time of the machine", "%s", l.target.lengths())
}

// loading is a registry's machine that gets one image after another.
type loading struct {
	t        *testing.T
	site     *site.Site
	target   *target
	node     lab.Node
	instance string
	server   api.Server
	// image is the id of the image that has to run, the last of so many.
	image  string
	images int
	// kept are the files of the registry, as data has them.
	kept []string
	// boot is where the present boot begins on the console.
	boot int
	// looks counts those at the console.
	looks int
	lost  int64
}

// The stages of an image's way, by the agent's actions.
const (
	fetch = first
	load  = second
	run   = third // the container is made from the image and started
)

// through gives the registry an image without a cut, and then one after another with cuts.
func (l *loading) through(ctx context.Context, cuts int) error {
	err := l.begin(ctx)
	if err == nil {
		err = l.next(ctx)
	}
	if err == nil {
		err = l.target.reach(ctx, done)
	}
	if err != nil {
		return fmt.Errorf("without a cut: %w", err)
	}
	if err := l.target.through(ctx, cuts, l.next, l.cut); err != nil {
		return err
	}
	return l.settle(ctx)
}

// next waits until all is well, and wants another image.
func (l *loading) next(ctx context.Context) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	if err := l.mark(); err != nil {
		return err
	}
	return l.give(ctx)
}

// begin boots a registry's machine and puts something into the registry.
func (l *loading) begin(ctx context.Context) error {
	address := lab.Gateway.Next()
	l.server.ConnectionPoints = []api.ConnectionPoint{{Name: "CP1", Addresses: []string{address.String()}}}
	if err := l.give(ctx); err != nil {
		return err
	}
	userData, err := l.site.Hitchctl(ctx, "render", "user-data", l.instance)
	if err != nil {
		return err
	}
	l.node, err = l.site.Lab.VM(ctx, lab.Spec{Name: l.server.Name, ServerID: l.server.ID, Address: address, Engine: lab.EngineInstalled})
	if err != nil {
		return err
	}
	l.target.node = l.node
	if err := errors.Join((&life{node: l.node}).shortenBoots(ctx), strictRoot(ctx, l.node)); err != nil {
		return err
	}
	// Docker starts no container under Debian's kernel without it.
	if err := l.site.Lab.InstallPackages(ctx, l.node, "apparmor", "apparmor"); err != nil {
		return err
	}
	if err := site.Inject(ctx, l.node, userData); err != nil {
		return err
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	return l.prepare(ctx)
}

// prepare makes the agent's log visible on the console, and fills the registry.
func (l *loading) prepare(ctx context.Context) error {
	const dropIn = "/etc/systemd/system/nodehitch-agent.service.d/console.conf"
	if err := l.node.Push(ctx, dropIn, 0o644, []byte("[Service]\nStandardError=journal+console\n")); err != nil {
		return err
	}
	const image, file = "127.0.0.1:5000/kept:1", "/root/kept.tar"
	var kept bytes.Buffer
	if err := registry.Small(image, 256<<10, 1).Write(&kept); err != nil {
		return err
	}
	if err := l.node.Push(ctx, file, 0o600, kept.Bytes()); err != nil {
		return err
	}
	const fill = `docker load --quiet --input "$1"; docker push --quiet "$2"; docker rmi "$2"
systemctl mask apparmor nfs-server nfs-mountd rpcbind.service rpcbind.socket # it is no storage server
systemctl daemon-reload; systemctl restart nodehitch-agent; sync`
	if _, err := l.node.Exec(ctx, "sh", "-euc", fill, "sh", file, image); err != nil {
		return err
	}
	var err error
	l.kept, err = l.data(ctx)
	return err
}

// data is a line for each file of the registry: its size, its sum and its name.
func (l *loading) data(ctx context.Context) ([]string, error) {
	const sums = `cd /home/ubuntu/registry; find . -type f | sort | while read -r file; do
echo "$(stat --format=%s "$file") $(sha256sum "$file")"; done`
	out, err := l.node.Exec(ctx, "sh", "-euc", sums)
	if err == nil && len(out) == 0 {
		err = errors.New("the registry has no data")
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), err
}

// give wants another image.
func (l *loading) give(ctx context.Context) error {
	image, err := registry.Server(imageBytes + l.images)
	if err != nil {
		return err
	}
	l.images++
	if l.image, err = image.ID(); err != nil {
		return err
	}
	dir := l.t.TempDir()
	path, topology := filepath.Join(dir, "package/Files/images/private_registry.tar"), filepath.Join(dir, "topology.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	servers, err := json.Marshal(api.Topology{Servers: []api.Server{l.server}, StackStatus: "CREATE_COMPLETE"})
	if err := errors.Join(err, image.WriteFile(path), os.WriteFile(topology, servers, 0o600)); err != nil {
		return err
	}
	const request = "../../shared/params/testdata/private-registry.json"
	_, err = l.site.Hitchctl(ctx, "apply", l.instance, "-f", request, "--topology", topology, "--package", filepath.Join(dir, "package"))
	return errors.Join(err, os.Remove(path))
}

// mark notes where on the console something new begins.
func (l *loading) mark() error {
	console, err := l.node.Console()
	l.boot = len(console)
	return err
}

// cut cuts the power, notes what that has hit, and boots the machine.
func (l *loading) cut(ctx context.Context) error {
	if err := l.node.PowerCut(ctx); err != nil {
		return err
	}
	hit, err := l.target.count(ctx)
	if err != nil {
		return err
	}
	l.t.Logf("cut; hit: %s", l.target.names[hit])
	if err := l.mark(); err != nil {
		return err
	}
	return l.node.Start(ctx)
}

// actionLine is one of the agent's log: an action begins or ends.
var actionLine = regexp.MustCompile(`msg="action (started|finished|failed)".* action="?(\w+)([^"\n]*)`)

// stage is how far the image is, by the actions on the console since the mark.
func (l *loading) stage(ctx context.Context) (stage, error) {
	console, err := l.node.Console()
	if err != nil {
		return idle, err
	}
	all := actionLine.FindAllSubmatch(console[min(l.boot, len(console)):], -1)
	if len(all) == 0 {
		// In the boot after a cut there may be nothing to do.
		if l.looks++; l.looks%200 == 0 && l.settled(ctx) == nil {
			return done, nil
		}
		return idle, nil
	}
	last := all[len(all)-1]
	switch what, action := string(last[1]), string(last[2]); {
	case action == "fetch":
		return fetch, nil
	case action == "load" && what == "started":
		return load, nil
	case bytes.Contains(last[3], []byte("container")) && what == "finished":
		return done, nil
	case action == "load", bytes.Contains(last[3], []byte("container")):
		return run, nil
	}
	return idle, nil
}

// settle waits until all is well, and counts what is lost.
func (l *loading) settle(ctx context.Context) error {
	ctx, cancel := patience(ctx, l.site.Lab, l.node)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	began := time.Now()
	for {
		err := l.settled(ctx)
		if err == nil {
			l.t.Logf("all is well after %.1f s", time.Since(began).Seconds())
			return l.check(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the registry did not come to run: %w", err)
		}
	}
}

// settled: the node is Ready by the document in force, and the machine itself says so too: a
// report may be from before the cut.
func (l *loading) settled(ctx context.Context) error {
	c, err := l.site.API()
	if err != nil {
		return err
	}
	node, err := client.Read[api.Node](c.GetNode(ctx, l.server.ID, nil))
	if err != nil {
		return err
	}
	if !node.Ready || node.Status.AppliedDigest != node.Digest {
		return fmt.Errorf("generation %d, withheld %v, status %+v", node.Generation, node.Withheld, node.Status)
	}
	runs, err := l.node.Exec(ctx, "docker", "inspect", "--format", "{{.Image}} {{.State.Status}}", "private_registry")
	if got := strings.TrimSpace(string(runs)); err != nil || got != l.image+" running" {
		return errors.Join(err, fmt.Errorf("the container is %s, want %s running", got, l.image))
	}
	answer, err := l.node.Exec(ctx, "curl", "--silent", "--show-error", "http://127.0.0.1:5000/v2/")
	if err == nil && string(answer) != "{}" {
		err = fmt.Errorf("GET /v2/ says %q", answer)
	}
	return err
}

// check reads the image and the data back. Docker compares each file of an image that it saves
// with the sum that it had when it was loaded.
func (l *loading) check(ctx context.Context) error {
	if _, err := l.node.Exec(ctx, "sh", "-c", `docker save "$1" >/dev/null`, "sh", l.image); err != nil {
		l.lost += imageBytes
		return fmt.Errorf("the image is damaged: %w", err)
	}
	if len(l.kept) == 0 {
		return nil // nothing is in it yet
	}
	have, err := l.data(ctx)
	for _, file := range l.kept {
		if slices.Contains(have, file) {
			continue
		}
		var size int64
		_, scanned := fmt.Sscan(file, &size)
		l.lost += size
		err = errors.Join(err, scanned, fmt.Errorf("the registry has lost or changed %s", file))
	}
	return err
}

// show logs what helps to understand a failure.
func (l *loading) show() {
	if l.node == nil {
		return
	}
	(&life{t: l.t, node: l.node}).show()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 30*time.Second)
	defer cancel()
	for _, look := range [][]string{{"docker", "ps", "--all"}, {"docker", "images", "--all"}, {"journalctl", "-b", "-u", "docker", "--no-pager", "-n", "40"}} {
		out, err := l.node.Exec(ctx, look...)
		l.t.Logf("%v: %v\n%s", look, err, out)
	}
}
