package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack"
)

// Remains is what the cloud shows of a server that has to be gone, of others, and of its volumes.
type Remains struct {
	// Servers are the servers that Nova has, each with its status.
	Servers map[string]string
	// Volumes are those that Cinder has, each with the servers that it is attached to.
	Volumes map[string][]string
}

// Gone reports whether one server is gone for good, and these volumes are attached to the other
// one and nowhere else. One that is soft-deleted can be restored. That Nova shows the other one,
// and Cinder the volumes, tells that the credential sees the project in which they are.
func (r Remains) Gone(server, other string, volumes []string) bool {
	status, there := r.Servers[server]
	_, seen := r.Servers[other]
	return seen && (!there || status == "DELETED") && !slices.ContainsFunc(volumes, func(id string) bool {
		return !slices.Equal(r.Volumes[id], []string{other})
	})
}

// Text is what the cloud shows of a server and of volumes, for people.
func (r Remains) Text(server string, volumes []string) string {
	list := []string{"Nova does not have it"}
	if status, there := r.Servers[server]; there {
		list[0] = "Nova shows it as " + status
	}
	for _, id := range volumes {
		attached, shown := r.Volumes[id]
		what := "attached to no server"
		switch {
		case !shown:
			what = "not at all"
		case len(attached) > 0:
			what = "attached to " + strings.Join(attached, " and ")
		}
		list = append(list, fmt.Sprintf("Cinder shows volume %s %s", id, what))
	}
	return strings.Join(list, ", ")
}

// Remains asks Nova for each server and Cinder for the volumes: one call for each, and one more
// for each further page of Cinder's list.
func (h Heat) Remains(ctx context.Context, r Request, serverIDs, volumeIDs []string) (Remains, error) {
	cloud, err := h.Clouds.For(ctx, r.VIM)
	if errors.Is(err, openstack.ErrNoCloud) {
		return Inline{}.Remains(ctx, r, serverIDs, volumeIDs)
	}
	if err != nil {
		return Remains{}, problemOf(err)
	}
	left := Remains{Servers: map[string]string{}, Volumes: map[string][]string{}}
	for _, id := range serverIDs {
		server, err := cloud.Server(ctx, id)
		switch {
		case err == nil:
			left.Servers[id] = server.Status
		case !openstack.IsGone(err): // a server that may not be seen is none that is gone
			return Remains{}, problemOf(err)
		}
	}
	volumes, err := cloud.Volumes(ctx)
	if err != nil {
		return Remains{}, problemOf(err)
	}
	for _, v := range volumes {
		if slices.Contains(volumeIDs, v.ID) {
			left.Volumes[v.ID] = v.AttachedTo
		}
	}
	return left, nil
}
