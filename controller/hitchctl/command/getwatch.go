package command

import (
	"context"
	"encoding/json"

	"github.com/nodehitch/nodehitch/controller/hitchctl/follow"
	"github.com/nodehitch/nodehitch/shared/client"
)

// follow shows the list again at each change, until it is interrupted.
func (g *getting[T]) follow(ctx context.Context, c *client.Controller) error {
	show := g.appending()
	if g.output.forPrograms() {
		show = g.encoding()
	} else if g.app.out.TTY {
		live := g.app.out.Live()
		defer live.Done()
		show = func(items []T) error { live.Draw(g.lines(items)); return nil }
	}
	return watch(ctx, g.app, g.poll(c, g.scope()), func(list *struct{ Items []T }) error {
		items, _ := g.pick(list.Items, false)
		return show(items)
	})
}

// watch shows what a poll gives at each change, until it is interrupted or cannot be shown.
func watch[T any](ctx context.Context, a *app, poll follow.Poll, show func(*T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := follow.Changes(ctx, poll, func(u follow.Update[T]) {
		if u.Err != nil {
			a.warn(u.Err.Error() + " (trying again)")
		} else if err := show(u.Content); err != nil {
			cancel(err)
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// encoding shows each change as one document.
func (g *getting[T]) encoding() func([]T) error {
	return func(items []T) error {
		content := one(len(g.args), items)
		switch g.output {
		case asYAML:
			if err := g.app.print("---"); err != nil {
				return err
			}
			return g.app.encode(asYAML, content)
		case asJSON:
			text, err := json.Marshal(content)
			if err != nil {
				return err
			}
			return g.app.print(string(text))
		}
		text, err := encoded(g.output, content)
		if err != nil {
			return err
		}
		return g.app.print(string(text))
	}
}

// appending shows the head once, then the rows that are new or have changed.
func (g *getting[T]) appending() func([]T) error {
	shown, first := map[string]string{}, true
	return func(items []T) error {
		table := g.lines(items)
		var lines []string
		if first {
			lines, first = table[:g.heads()], false
		}
		present := map[string]bool{}
		for i, item := range items {
			id := g.named(item).id
			present[id] = true
			if g.quiet != nil {
				item = g.quiet(item)
			}
			text, err := json.Marshal(item)
			if err != nil {
				return err
			}
			if shown[id] != string(text) {
				shown[id] = string(text)
				lines = append(lines, table[i+g.heads()])
			}
		}
		for id := range shown {
			if !present[id] {
				delete(shown, id)
				lines = append(lines, id+" is gone")
			}
		}
		return g.app.print(lines...)
	}
}
