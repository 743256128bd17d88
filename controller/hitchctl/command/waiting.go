package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// waitState is what is known while something is waited for.
type waitState struct {
	nodes     []api.Node
	instances []api.Instance
	operation *api.Operation
	// heat is what Heat is doing, "" if the command does not wait for it.
	heat  string
	known struct{ nodes, instances bool }
	// failure is why there is no news just now, nil if there is.
	failure error
}

// waiter waits until the state is as wished, and shows how it gets there.
type waiter struct {
	app     *app
	display *screen.Screen
	timeout time.Duration // 0 is without limit
	title   string
	// watch are the lists and records that make the state.
	watch []watcher
	// shown are the nodes to show, of the state.
	shown func(waitState) []api.Node
	// right is what stands at the right of the title; nil for how long it has taken.
	right func(s waitState, now time.Time) string
	// done reports whether the wait is over, with an error if it can never succeed.
	done func(waitState) (bool, error)
	// refresh brings the state up to date for the last picture, for what is waited
	// for may be told before what led to it; nil for nothing.
	refresh func(context.Context, *waitState)
	// result is the last line, once done.
	result func(s waitState, took time.Duration) string
}

// watcher follows something and sends what it changes of the state.
type watcher func(ctx context.Context, send func(func(*waitState))) error

func watching[T any](poll follow.Poll, take func(*waitState, *T)) watcher {
	return func(ctx context.Context, send func(func(*waitState))) error {
		return follow.Changes(ctx, poll, func(u follow.Update[T]) {
			send(func(s *waitState) {
				if s.failure = u.Err; u.Content != nil {
					take(s, u.Content)
				}
			})
		})
	}
}

func watchNodes(c *client.Controller, instance string) watcher {
	return watching(nodeKind.poll(c, scope{instance: instance, all: true}), func(s *waitState, l *api.NodeList) { s.nodes, s.known.nodes = l.Items, true })
}

func watchInstances(c *client.Controller) watcher {
	return watching(instanceKind.poll(c, scope{}), func(s *waitState, l *api.InstanceList) { s.instances, s.known.instances = l.Items, true })
}

// refreshWithin bounds what is only for the looks.
const refreshWithin = 5 * time.Second

func refreshNodes(c *client.Controller, instance string) func(context.Context, *waitState) {
	return func(ctx context.Context, s *waitState) {
		ctx, cancel := context.WithTimeout(ctx, refreshWithin)
		defer cancel()
		if nodes, err := nodeKind.list(ctx, c, scope{instance: instance, all: true}); err == nil {
			s.nodes = nodes
		}
	}
}

var errTimeOver = errors.New("timed out")

// frame is how often a display on a terminal moves.
const frame = 120 * time.Millisecond

func (w *waiter) run(ctx context.Context) (waitState, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.timeout > 0 {
		timer := time.AfterFunc(w.timeout, func() { cancel(errTimeOver) })
		defer timer.Stop()
	}
	updates := make(chan func(*waitState))
	for _, watch := range w.watch {
		go func() {
			err := watch(ctx, func(u func(*waitState)) {
				select {
				case updates <- u:
				case <-ctx.Done():
				}
			})
			cancel(err)
		}()
	}
	view := w.newView()
	defer view.close()
	return w.loop(ctx, updates, view)
}

func (w *waiter) loop(ctx context.Context, updates <-chan func(*waitState), view *view) (waitState, error) {
	var s waitState
	for {
		select {
		case <-ctx.Done():
			view.close()
			return s, w.over(ctx, s)
		case u := <-updates:
			u(&s)
			view.note(s)
		case <-view.ticks:
		}
		done, err := w.done(s)
		if done && w.refresh != nil {
			w.refresh(ctx, &s)
			view.note(s)
		}
		view.draw(s)
		if done {
			view.close()
			view.finish(s, err)
			return s, err
		}
	}
}

// over is why it ended without being done.
func (w *waiter) over(ctx context.Context, s waitState) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errTimeOver) {
		return cause
	}
	text := fmt.Sprintf("%s: not within %s", w.title, present.Typed(w.timeout))
	for _, n := range w.shown(s) {
		if !n.Ready {
			text += "\n  " + n.Name + ": " + describe.Why(n)
		}
	}
	if s.heat != "" {
		text += "\n  " + s.heat
	}
	if s.failure != nil {
		text += "\n  " + s.failure.Error()
	}
	return errors.New(text)
}

// view shows a waiting, in place on a terminal or line by line.
type view struct {
	*waiter
	progress present.Progress
	live     *screen.Live
	ticks    <-chan time.Time
	ticker   *time.Ticker
	failure  string
	heat     string
}

func (w *waiter) newView() *view {
	v := &view{waiter: w, progress: present.Progress{Title: w.title, Started: w.app.now()}}
	if w.display.TTY {
		v.live = w.display.Live()
		v.ticker = time.NewTicker(frame)
		v.ticks = v.ticker.C
	} else {
		fmt.Fprintln(w.display, "waiting: "+w.title)
	}
	return v
}

func (v *view) close() {
	if v.live != nil {
		v.ticker.Stop()
		v.live.Done()
		v.live = nil
	}
}

func (v *view) note(s waitState) {
	nodes := v.shown(s)
	v.progress.Note(nodes, v.app.now())
	if v.live != nil {
		return
	}
	for _, line := range v.progress.Transitions(nodes, v.app.now()) {
		fmt.Fprintln(v.display, line)
	}
	if s.heat != v.heat {
		fmt.Fprintln(v.display, "        "+screen.Clean(s.heat))
	}
	v.heat = s.heat
	failure := ""
	if s.failure != nil {
		failure = s.failure.Error()
	}
	if failure != "" && failure != v.failure {
		fmt.Fprintln(v.display, "        "+screen.Clean(failure)+" (trying again)")
	}
	v.failure = failure
}

func (v *view) draw(s waitState) {
	if v.live == nil {
		return
	}
	now := v.app.now()
	right := describe.Age(now.Sub(v.progress.Started))
	if v.right != nil {
		right = v.right(s, now)
	}
	lines := v.progress.Lines(v.display, v.shown(s), right, now)
	if s.heat != "" {
		lines = append(lines, "", v.display.Paint(screen.Waiting, v.display.Truncate(screen.Clean(s.heat), v.display.Width())))
	}
	if s.failure != nil {
		text := v.display.Truncate(screen.Clean(s.failure.Error()+" (trying again)"), v.display.Width())
		lines = append(lines, "", v.display.Paint(screen.Waiting, text))
	}
	v.live.Draw(lines)
}

// finish prints the result and how long each step took.
func (v *view) finish(s waitState, err error) {
	took := v.app.now().Sub(v.progress.Started)
	if v.live == nil && v.display.TTY {
		fmt.Fprintln(v.display)
	}
	if err == nil {
		mark := v.display.Paint(screen.Good, v.display.Symbol("✓", "ok:"))
		fmt.Fprintln(v.display, mark+" "+v.result(s, took))
	}
	for _, line := range v.progress.Summary() {
		fmt.Fprintln(v.display, "  "+line)
	}
}
