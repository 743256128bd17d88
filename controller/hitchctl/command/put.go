package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/changes"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// snapshot is an instance as the controller has shown it: nil if there was none.
type snapshot struct {
	instance *api.Instance
	etag     string
}

// readNewInstance reads an instance that may be new; then its id has to be whole.
func readNewInstance(ctx context.Context, c *client.Controller, text string) (id string, v snapshot, err error) {
	id, err = instanceKind.resolve(ctx, c, text)
	switch {
	case err == nil:
		v, err = readSnapshot(ctx, c, id)
	case client.Status(err) == 0:
		err = errorWithHint{err, "a new instance needs a whole id, a UUID: Tacker's, or a new one: " +
			"`hitchctl apply $(cat /proc/sys/kernel/random/uuid) -f request.json --name " + shellWord(text) + "`"}
	}
	return id, v, err
}

func readSnapshot(ctx context.Context, c *client.Controller, id string) (snapshot, error) {
	answer, err := c.GetInstance(ctx, id, nil) //nolint:bodyclose // Read closes it
	instance, err := client.Read[api.Instance](answer, err)
	switch {
	case client.Status(err) == http.StatusNotFound:
		return snapshot{}, nil
	case err != nil:
		return snapshot{}, err
	}
	return snapshot{instance, answer.Header.Get("ETag")}, nil
}

// unchanged is the condition of a PUT that it replaces this version and no other.
func (v snapshot) unchanged() *api.PutInstanceParams {
	if v.instance == nil {
		return &api.PutInstanceParams{IfNoneMatch: new("*")}
	}
	return &api.PutInstanceParams{IfMatch: &v.etag}
}

// sameDesired reports whether two versions have the same of what a PUT replaces. The ETag also
// covers files, nodes, warnings and the observed stack.
func (v snapshot) sameDesired(now snapshot) bool {
	if v.instance == nil || now.instance == nil {
		return v.instance == now.instance
	}
	return v.instance.DesiredVersion == now.instance.DesiredVersion && v.instance.CreatedAt.Equal(now.instance.CreatedAt)
}

// put replaces the instance, unless somebody else has changed it since it was read. It also
// returns the version that it has replaced.
func (a *app) put(ctx context.Context, c *client.Controller, id string, before snapshot, force bool, spec api.InstanceSpec) (snapshot, *api.Instance, error) {
	for {
		condition := before.unchanged()
		if force {
			var err error
			if before, err = readSnapshot(ctx, c, id); err != nil {
				return before, nil, err
			}
			condition = nil
		}
		after, err := client.Read[api.Instance](c.PutInstance(ctx, id, condition, spec))
		if client.Status(err) != http.StatusPreconditionFailed {
			if err != nil {
				err = subjectError{err, subject{instance: id, flags: applyFlagOf}}
			}
			return before, after, err
		}
		now, unread := readSnapshot(ctx, c, id)
		switch {
		case unread != nil:
			return before, nil, unread
		case !before.sameDesired(now):
			return before, nil, a.overtaken(ctx, c, id, before, now)
		case now.etag == before.etag:
			return before, nil, errorWithHint{err, "the controller does not know its own ETag; does a proxy between alter it? " + a.typed("--force") + " sends none"}
		}
		before = now
	}
}

// overtaken says what somebody else has done to the instance since it was read, when and who.
func (a *app) overtaken(ctx context.Context, c *client.Controller, id string, before, now snapshot) error {
	what, event, since := "changed", api.HappenedDesiredStateChanged, int64(0)
	switch {
	case before.instance == nil:
		what, event = "made", api.HappenedInstanceCreated
	case now.instance == nil:
		what, event = "deleted", api.HappenedInstanceDeleted
	case !before.instance.CreatedAt.Equal(now.instance.CreatedAt):
		what, event = "deleted and made again", api.HappenedInstanceCreated
	default:
		since = before.instance.DesiredVersion
	}
	name := ""
	if now.instance != nil {
		name = now.instance.Name
	}
	text := fmt.Sprintf("somebody else has %s instance %s since this command has read it; nothing was applied", what, describe.InstanceName(name, id))
	for _, e := range newest(ctx, c, id, event, since) {
		text += "\n  " + describe.Moment(e.At) + "  " + string(e.Type) + "  " + describe.Event(e)
	}
	if since > 0 {
		for _, d := range changes.Between(before.instance, now.instance) {
			text += "\n  " + d.String()
		}
	}
	return errorWithHint{errors.New(text), fmt.Sprintf("look at `hitchctl get instance %s -o yaml`, bring the request up to date and apply it again; %s replaces what is there",
		describe.Short(id), a.typed("--force"))}
}

// newest are the newest events of one type about an instance, those of versions only behind
// one: none if the controller does not show them, as to Tacker's token.
func newest(ctx context.Context, c *client.Controller, id string, kind api.EventType, since int64) []api.Event {
	most := 1
	if since > 0 {
		most = 3
	}
	list, err := listEvents(ctx, c, api.ListEventsParams{VnfInstanceID: &id})
	if err != nil {
		return nil
	}
	events := slices.DeleteFunc(list.Items, func(e api.Event) bool {
		version, _ := strconv.ParseInt(e.To, 10, 64)
		return e.Type != kind || since > 0 && version <= since
	})
	return events[max(0, len(events)-most):]
}
