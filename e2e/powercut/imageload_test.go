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
	// So much more than the registry itself: an emulated machine needs seconds for the load.
	imageBytes = 16 << 20
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
	l := &loading{t: t, site: s, chance: rand.New(rand.NewPCG(seed, 3)), hits: map[string]int{}, takes: map[string]time.Duration{},
		instance: uuid.NewString(), server: api.Server{ID: uuid.NewString(), Name: "registry"}}
	err := l.through(t.Context(), cuts)
	if err != nil {
		l.show()
		t.Error(err)
	}
	c.Lost(l.lost)
	if inside := cuts - l.hits[between]; err == nil && (inside < cuts/2 || l.hits["load"] == 0) {
		t.Errorf("of %d cuts %d hit work; a load has to be hit: %s", cuts, inside, l.histogram())
	}
	c.Figure("seed", "%d", seed)
	c.Figure("cuts", "%d; actions hit: %s", cuts, l.histogram())
	c.Figure("undisturbed", "fetch %.1f s, load and start %.1f s", l.takes["fetch"].Seconds(), l.takes["load"].Seconds())
}

// loading is a registry's machine that gets one image after another.
type loading struct {
	t        *testing.T
	site     *site.Site
	chance   *rand.Rand
	node     lab.Node
	instance string
	server   api.Server
	// image is the id of the image that has to run.
	image string
	// kept are the files of the registry, as data has them.
	kept []string
	// boot is where the present boot begins on the console.
	boot int
	// takes is how long an undisturbed action takes, the load with what follows it.
	takes map[string]time.Duration
	hits  map[string]int
	lost  int64
}

// between is the moment of a cut that hits no action.
const between = "none"

// through loads an image undisturbed, then another one for each two cuts: the second comes
// in the boot after the first, before all is well.
func (l *loading) through(ctx context.Context, cuts int) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	if err := l.undisturbed(ctx); err != nil {
		return fmt.Errorf("without a cut: %w", err)
	}
	for i := range cuts {
		err := l.aim(ctx, i)
		if err == nil {
			err = l.cut(ctx)
		}
		if err == nil && (i%2 == 1 || i == cuts-1) {
			err = l.settle(ctx)
		}
		if err != nil {
			return fmt.Errorf("cut %d: %w", i, err)
		}
	}
	return nil
}

// begin boots a registry's machine and puts something into the registry.
func (l *loading) begin(ctx context.Context) error {
	address := lab.Gateway.Next()
	l.server.ConnectionPoints = []api.ConnectionPoint{{Name: "CP1", Addresses: []string{address.String()}}}
	if err := l.give(ctx, 0); err != nil {
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
	if err := (&life{node: l.node}).shortenBoots(ctx); err != nil {
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

// give wants another image, the n-th.
func (l *loading) give(ctx context.Context, n int) error {
	image, err := registry.Server(imageBytes + n)
	if err != nil {
		return err
	}
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

// undisturbed measures how long the actions take.
func (l *loading) undisturbed(ctx context.Context) error {
	if err := l.mark(); err != nil {
		return err
	}
	if err := l.give(ctx, 1); err != nil {
		return err
	}
	if err := l.started(ctx, "fetch", false); err != nil {
		return err
	}
	fetch := time.Now()
	if err := l.started(ctx, "load", false); err != nil {
		return err
	}
	load := time.Now()
	l.takes["fetch"] = load.Sub(fetch)
	err := l.settle(ctx)
	l.takes["load"] = time.Since(load)
	return err
}

// aim waits for the moment of the i-th cut.
func (l *loading) aim(ctx context.Context, i int) error {
	action := []string{"fetch", "load", "load"}[l.chance.IntN(3)]
	if i%2 == 0 {
		if err := l.mark(); err != nil {
			return err
		}
		if err := l.give(ctx, i+2); err != nil {
			return err
		}
	}
	if err := l.started(ctx, action, i%2 == 1); err != nil {
		return err
	}
	pause(ctx, time.Duration(l.chance.Int64N(int64(l.takes[action]))))
	return nil
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
	actions, err := l.actions()
	if err != nil {
		return err
	}
	hit := between
	if n := len(actions); n > 0 && actions[n-1].begins {
		hit = actions[n-1].name
	}
	l.hits[hit]++
	l.t.Logf("cut; the action hit: %s", hit)
	if err := l.mark(); err != nil {
		return err
	}
	return l.node.Start(ctx)
}

// action is a line of the agent's log: an action begins or ends.
type action struct {
	name   string
	begins bool
}

var actionLine = regexp.MustCompile(`msg="action (started|finished|failed)".* action="?(\w+)`)

// actions are those on the console since the mark.
func (l *loading) actions() ([]action, error) {
	console, err := l.node.Console()
	if err != nil {
		return nil, err
	}
	var all []action
	for _, found := range actionLine.FindAllSubmatch(console[min(l.boot, len(console)):], -1) {
		all = append(all, action{string(found[2]), string(found[1]) == "started"})
	}
	return all, nil
}

// started waits until an action has begun since the mark, or, if it may be done already, until
// all is well.
func (l *loading) started(ctx context.Context, name string, mayBeDone bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		actions, err := l.actions()
		if err != nil || slices.Contains(actions, action{name, true}) {
			return err
		}
		if mayBeDone && n%100 == 0 && l.settled(ctx) == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s has not begun: %w", name, ctx.Err())
		}
	}
}

// settle waits until all is well, and counts what is lost.
func (l *loading) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	node, err := client.Read[api.Node](c.GetNode(ctx, l.server.ID))
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

func (l *loading) histogram() string {
	var parts []string
	for name, n := range l.hits {
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
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
