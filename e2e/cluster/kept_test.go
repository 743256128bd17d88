package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/e2e/cluster/nfswriter/report"
	"github.com/nodehitch/nodehitch/e2e/kube/kubetest"
	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/results"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/e2e/site/sitetest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// way is how the storage server is replaced while clients write.
type way struct {
	name string
	// serves: the image starts an NFS server at boot, which the templates' user_data for a storage
	// server keeps off. Else the image has none that is started.
	serves bool
	// cut: the power is cut while the new machine mounts the volume for the first time.
	cut bool
	// killed: the controller is killed whenever there is progress.
	killed bool
}

var (
	plain            = way{name: "plain"}
	powerCut         = way{name: "power cut in the first mount", cut: true}
	controllerKilled = way{name: "controller killed", killed: true}
	imageServes      = way{name: "the image would start an NFS server", serves: true}
)

// TestKept has a client that writes while the storage server is destroyed and replaced, each
// time by a machine with another name and id: nothing that was acknowledged is lost, no
// operation fails, and the lock stays held.
func TestKept(t *testing.T) {
	results.LongOnly(t)
	for _, c := range []struct {
		name, shows string
		run         func(*writers, *results.Case)
	}{
		{"kept", "a client appends, locks, renames and uses a deleted file while the storage server is destroyed and another one takes its place", destroyed(1, plain)},
		{"kept-image-serves", "the same with an image that starts an NFS server, and the user_data of the templates", destroyed(1, imageServes)},
		{"kept-twenty", "the same twenty times, also with power cuts in the first mount and a controller that is killed", destroyed(20, plain, powerCut, controllerKilled)},
		{"kept-stranded", "another volume is refused, and another address strands the PersistentVolumes: the client goes on once the old address is given back; " +
			"without it they are withdrawn and made anew", (*writers).stranded},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := results.Begin(t, suite, c.name, c.shows)
			w := newWorld(t).keepsIn(shape{workers: 1, emulated: true})
			// Without a cloud nothing shows that the old server is gone, so an operator has to.
			w.refuses([]string{"no cloud is configured"}, sitetest.PhaseStart, sitetest.VNFC(w.storage().Server))
			c.run(w, r)
			w.figures(r)
		})
	}
}

// destroyed replaces the storage server so many times, in these ways by turns.
func destroyed(times int, ways ...way) func(*writers, *results.Case) {
	return func(w *writers, r *results.Case) {
		for i := range times {
			w.survives(r, i+1, ways[i%len(ways)])
		}
	}
}

// keepsIn makes a cluster that keeps its PersistentVolumes. A client writes to one that is claimed.
func (w *world) keepsIn(s shape) *writers {
	w.T.Helper()
	c := w.newClusterOf(s)
	if s.cloud != nil {
		c.shows()
	}
	c.newKubernetes()
	c.Apply(c.keepBody(), packageDir)
	userData := c.UserData()
	c.bootThen(userData, func(m lab.Node, virtual bool) error {
		if virtual {
			return site.Inject(c.T.Context(), m, userData)
		}
		return nil
	}, c.Topology.Servers...)
	c.install(c.master())
	c.T.Cleanup(func() {
		c.Explain()
	})
	c.Operate(api.Instantiate)
	kubetest.Available(c.T, c.kube, c.storage().Address())
	writers := c.writes(c.claims())
	c.T.Cleanup(writers.explain)
	return writers
}

// keepBody is the spec's request with the volumes kept at each heal.
func (c *cluster) keepBody() string {
	c.T.Helper()
	var request map[string]any
	text, err := os.ReadFile(body)
	if err := errors.Join(err, json.Unmarshal(text, &request)); err != nil {
		c.T.Fatal(err)
	}
	cluster := request["additionalParams"].(map[string]any)["k8s_cluster_installation_param"].(map[string]any)
	cluster["storage_server"].(map[string]any)["persistent_volumes_at_heal"] = "keep"
	return c.File("request.json", request)
}

// oldServerIsOff is an operator's word, without which nothing is kept where no cloud is asked.
const oldServerIsOff = "--old-server-is-off"

// refuses asserts that no heal begins, for these reasons.
func (w *writers) refuses(reasons []string, flags ...string) {
	w.T.Helper()
	last := w.LastOperation().ID
	s := <-w.Begin(api.Heal, flags...)
	if now := w.LastOperation(); s.Code != 1 || now.ID != last {
		w.T.Errorf("the last operation is %+v: %s", now, s)
	}
	for _, reason := range reasons {
		if !strings.Contains(s.Stderr, reason) {
			w.T.Errorf("it does not say %q: %s", reason, s)
		}
	}
}

// survives replaces the storage server once.
func (w *writers) survives(r *results.Case, n int, by way) {
	w.T.Helper()
	before := w.volumes()
	w.Kills.Controller = by.killed
	old := w.storage()
	cutOff, waiting := w.destroys(old)
	s := w.Redraw(old.Server, old.Address())
	mounts, err := w.mountCount()
	if err != nil {
		w.T.Fatal(err)
	}
	w.bootStorage(s, by)
	done := w.Begin(api.Heal, sitetest.VNFC(s)) // what the START was told holds
	if by.cut {
		w.cutInMount(mounts)
	}
	w.Completes(done)
	served := w.served(s)
	w.write("the storage server is replaced", waiting)
	write, open := w.first(waiting, report.Append, report.Lock, report.Deleted), w.first(waiting, report.Open)
	w.T.Logf("%d, %s: served %s, first write %s, first open %s", n, by.name, served.UTC(), write.UTC(), open.UTC())
	r.Figure(fmt.Sprintf("%d, %s", n, by.name), "after ExportsServed the first write %+.1f s, the first open %+.1f s; %.1f and %.1f s after the destruction",
		write.Sub(served).Seconds(), open.Sub(served).Seconds(), write.Sub(cutOff).Seconds(), open.Sub(cutOff).Seconds())
	w.KillsAreOver(r, fmt.Sprintf("%d, controller killed", n), 2)
	w.Kills.Controller = false
	w.sound(r)
	w.inRole()
	w.untouched(before, true)
	if w.T.Failed() {
		w.T.FailNow() // the next one would not say more
	}
}

// destroys destroys the storage server after its START, and waits until the writers wait.
func (w *writers) destroys(old *sitetest.Machine) (cutOff, waiting time.Time) {
	w.T.Helper()
	w.Operate(api.Heal, sitetest.PhaseStart, sitetest.VNFC(old.Server), oldServerIsOff)
	w.write("START is over", time.Now())
	cutOff = time.Now()
	if err := old.PowerCut(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	w.Destroy(old)
	return cutOff, w.wait()
}

// bootStorage boots the server that takes the place of another.
func (w *writers) bootStorage(s api.Server, by way) {
	w.T.Helper()
	userData := w.UserData()
	spec := sitetest.Spec(s, nil)
	spec.Disks, spec.Cold, spec.NFSServerOff = []lab.Disk{w.volume}, by.serves, !by.serves
	if spec.Cold {
		spec.UserData = w.asOfTemplate(userData)
	}
	w.Boot(func(ctx context.Context, spec lab.Spec) (lab.Node, error) {
		node, err := w.Lab.VM(ctx, spec)
		if err == nil && !spec.Cold {
			err = site.Inject(ctx, node, userData)
		}
		return node, err
	}, spec)
}

// asOfTemplate is user_data as Heat puts it together for a storage server: what the template has as
// the server's own is first, and lists grow.
func (w *writers) asOfTemplate(userData []byte) []byte {
	w.T.Helper()
	var template struct {
		Parameters map[string]struct{ Default any }
	}
	err := yaml.Unmarshal([]byte(hot.Files()["simple-storage.yaml"]), &template)
	own, given := template.Parameters["storage_server_user_data"].Default.(string)
	merged := string(userData) + "merge_how: list(append)+dict(no_replace,recurse_list)\n"
	archive, err2 := json.Marshal([]map[string]string{{"content": own}, {"content": merged}})
	if err := errors.Join(err, err2); err != nil || !given {
		w.T.Fatal(given, err)
	}
	return append([]byte("#cloud-config-archive\n"), archive...)
}

// cutInMount cuts the power as soon as the storage server has written to the volume that it mounts
// it, and starts the machine again.
func (w *writers) cutInMount(before uint16) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := before; now == before; {
		select {
		case <-ctx.Done():
			w.T.Fatal("the storage server has not mounted its volume within five minutes")
		case <-tick.C:
		}
		var err error
		if now, err = w.mountCount(); err != nil {
			w.T.Fatal(err)
		}
	}
	m := w.storage()
	if err := m.PowerCut(ctx); err != nil {
		w.T.Fatal(err)
	}
	if err := m.Start(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// mountCount is how often the volume was mounted, as its superblock says.
func (w *writers) mountCount() (uint16, error) {
	f, err := os.Open(w.volume.Path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	count := make([]byte, 2)
	_, err = f.ReadAt(count, 1024+0x34)
	return binary.LittleEndian.Uint16(count), err
}

// served is when the controller was told first that a server serves its exports.
func (c *cluster) served(s api.Server) time.Time {
	c.T.Helper()
	var events api.EventList
	c.Until("the controller answers", func() error {
		return c.JSON(c.T.Context(), &events, "events", "--node", s.ID, "--type", string(api.HappenedConditionChanged), "--limit", "1000")
	})
	for _, e := range events.Items { // the oldest comes first
		if e.Condition == api.ConditionExportsServed && e.To == string(api.ConditionTrue) {
			return e.At
		}
	}
	c.T.Fatalf("no event says that %s serves: %+v", s.Name, events.Items)
	return time.Time{}
}
