package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// timeout of a wait; several emulated machines are slow.
const timeout = 5 * time.Minute

// patience ends after timeout. The time in which the machine waits for a processor of the host
// does not count: the host may have much else to do.
func patience(ctx context.Context, l *lab.Lab, node lab.Node) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	began, before := time.Now(), l.CPUWait(node)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for time.Since(began)-max(0, l.CPUWait(node)-before) < timeout {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// life is one machine, from before its agent, with one blank volume.
type life struct {
	t       *testing.T
	site    *site.Site
	api     *client.Controller
	chance  *rand.Rand
	storage site.Storage
	node    lab.Node
	volumes []*volume
	// exports: a folder of each volume is exported, and must be; else the machine has
	// no server for it, and the first is named because one has to be.
	exports bool
	boot    boot
	took    tally
}

// boot is what the present boot began with.
type boot struct {
	began time.Time
	// writing is the volume that records are being written to; saved of them were there
	// before. nil = none is written to.
	writing *volume
	saved   int
}

// newLife makes a machine with a blank volume; nothing of nodehitch is on it.
func newLife(ctx context.Context, t *testing.T, s *site.Site, name string, chance *rand.Rand) (*life, error) {
	c, err := s.API()
	if err != nil {
		return nil, err
	}
	v, err := newVolume(s.Lab, 0)
	if err != nil {
		return nil, err
	}
	l := &life{t: t, site: s, api: c, chance: chance, volumes: []*volume{v}, exports: true, boot: boot{began: time.Now()}, storage: site.Storage{
		Instance: uuid.NewString(), Server: api.Server{ID: uuid.NewString(), Name: name},
	}}
	if err := errors.Join(v.forVM(), v.plugged(ctx)); err != nil {
		return nil, err
	}
	l.node, err = s.Lab.VM(ctx, lab.Spec{Name: name, ServerID: l.storage.Server.ID, Disks: []lab.Disk{v.disk}})
	if err != nil {
		return nil, err
	}
	return l, l.shortenBoots(ctx)
}

func (l *life) newest() *volume { return l.volumes[len(l.volumes)-1] }

// announce tells the controller of the machine with the volumes that it has by now.
func (l *life) announce(ctx context.Context) (userData []byte, err error) {
	return l.announceAt(ctx, l.node.Address())
}

func (l *life) announceAt(ctx context.Context, address netip.Addr) (userData []byte, err error) {
	l.storage.Server.VolumeIds, l.storage.Volumes, l.storage.Exports = nil, nil, nil
	for _, v := range l.volumes {
		l.storage.Server.VolumeIds = append(l.storage.Server.VolumeIds, v.disk.VolumeID)
		l.storage.Volumes = append(l.storage.Volumes, v.described())
		if l.exports || len(l.storage.Exports) == 0 {
			l.storage.Exports = append(l.storage.Exports, v.exported())
		}
	}
	return l.site.Announce(ctx, &l.storage, address, l.t.TempDir())
}

// inject begins to bring the agent onto the machine; a power cut may come meanwhile.
// The answer comes when it has ended, whatever way.
func (l *life) inject(ctx context.Context) (<-chan error, error) {
	userData, err := l.announce(ctx)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- site.Inject(ctx, l.node, userData) }()
	return done, nil
}

// grow plugs a blank volume into the running machine and wants it mounted, while
// records are being written to the one before.
func (l *life) grow(ctx context.Context) error {
	if err := l.write(ctx); err != nil {
		return err
	}
	v, err := newVolume(l.site.Lab, len(l.volumes))
	if err != nil {
		return err
	}
	if err := errors.Join(v.forVM(), v.plugged(ctx), l.node.Attach(ctx, v.disk)); err != nil {
		return err
	}
	l.volumes = append(l.volumes, v)
	_, err = l.announce(ctx)
	return err
}

// reach waits until the machine has come as far as a phase.
func (l *life) reach(ctx context.Context, want phase) error {
	ctx, cancel := patience(ctx, l.site.Lab, l.node)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := l.phase(ctx)
		if err != nil || now >= want {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the machine has come to %s, not to %s: %w", now, want, ctx.Err())
		}
	}
}

// cut takes the power away, and from the volumes what their write caches held.
func (l *life) cut(ctx context.Context) error {
	if err := l.node.PowerCut(ctx); err != nil {
		return err
	}
	hit, err := l.phase(ctx)
	if err != nil {
		return err
	}
	l.took.hits[hit]++
	l.t.Logf("%s: cut in %s, %.1f s after the boot began", l.storage.Server.Name, hit, time.Since(l.boot.began).Seconds())
	switch {
	case l.boot.writing != nil && l.saved(l.boot.writing) > l.boot.saved:
		l.took.whileWriting++
	case hit == serving:
		l.took.idle++
	}
	for _, v := range l.volumes {
		lost, cached, err := v.disk.LoseCache(ctx, v.before(), l.chance)
		if err != nil {
			return err
		}
		l.took.lost, l.took.cached = l.took.lost+lost, l.took.cached+cached
		// Before the boot it may have been smaller.
		if err := os.Truncate(v.disk.Path, v.size); err != nil {
			return err
		}
		known, err := client.Read[api.Volume](l.api.GetVolume(ctx, v.disk.VolumeID, nil))
		if err == nil && known.PermitState == api.PermitFormatted {
			if err := v.whole(ctx); err != nil {
				return fmt.Errorf("after a cut that hit %s: %w", hit, err)
			}
		}
	}
	return nil
}

// again boots the machine.
func (l *life) again(ctx context.Context) error {
	l.boot = boot{began: time.Now()}
	for _, v := range l.volumes {
		if err := v.plugged(ctx); err != nil {
			return err
		}
	}
	if err := l.node.Start(ctx); err != nil {
		return err
	}
	l.took.boots = append(l.took.boots, time.Since(l.boot.began))
	l.t.Logf("%s: boots, %.1f s", l.storage.Server.Name, time.Since(l.boot.began).Seconds())
	return nil
}

// converge waits until everything is as it should be.
func (l *life) converge(ctx context.Context) error {
	ctx, cancel := patience(ctx, l.site.Lab, l.node)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var missing error
	for {
		err := l.converged(ctx)
		if ctx.Err() == nil {
			missing = err
		}
		if err == nil {
			l.took.converged = append(l.took.converged, time.Since(l.boot.began))
			l.t.Logf("%s: as it should be, %.1f s after the boot began", l.storage.Server.Name, time.Since(l.boot.began).Seconds())
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it did not converge in %s: %w", timeout, missing)
		}
	}
}

func (l *life) converged(ctx context.Context) error {
	node, err := client.Read[api.Node](l.api.GetNode(ctx, l.storage.Server.ID, nil))
	if err != nil {
		return err
	}
	if err := l.ready(node); err != nil {
		return err
	}
	for _, v := range l.volumes {
		known, err := client.Read[api.Volume](l.api.GetVolume(ctx, v.disk.VolumeID, nil))
		if err != nil || known.PermitState != api.PermitFormatted {
			return errors.Join(err, fmt.Errorf("the permit of %s is %+v", v.name, known))
		}
		// The machine itself has to say so too: a report may be from before the cut.
		says := map[string][]string{
			v.uuid():              {"findmnt", "-n", "-o", "UUID", "--mountpoint", v.mountPath()},
			`"phase": "reported"`: {"cat", v.journal()},
		}
		if l.exports {
			says[v.exported()] = []string{"exportfs", "-s"}
		}
		for want, argv := range says {
			out, err := l.node.Exec(ctx, argv...)
			if err != nil || !strings.Contains(string(out), want) {
				return errors.Join(err, fmt.Errorf("%v does not say %s: %s", argv, want, out))
			}
		}
		if err := v.whole(ctx); err != nil {
			return err
		}
	}
	return nil
}

// show logs what helps to understand a failure.
func (l *life) show() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 30*time.Second)
	defer cancel()
	for _, look := range [][]string{
		{"nodehitch-agent", "status"}, {"systemctl", "--no-pager", "status", "nodehitch*"},
		{"journalctl", "-b", "-u", "nodehitch*", "--no-pager", "-n", "60"}, {"journalctl", "-b", "-k", "--no-pager", "-n", "40"}, {"findmnt"}, {"exportfs", "-s"},
	} {
		out, err := l.node.Exec(ctx, look...)
		l.t.Logf("%v: %v\n%s", look, err, out)
	}
}

// end takes the machine and its volumes away.
func (l *life) end() error {
	errs := []error{l.node.Destroy()}
	for _, v := range l.volumes {
		errs = append(errs, v.discard())
	}
	return errors.Join(errs...)
}

// pause lets the machine run on: the randomness of a moment, not a wait for anything.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
