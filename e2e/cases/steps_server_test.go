package cases

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What happens to servers, and to which one the topology attaches a volume.
var _ = add(map[string]stepFunc{
	"instantiate":  (*run).instantiate,
	"replace":      (*run).replace,
	"heal":         (*run).heal,
	"healed":       (*run).healed,
	"revoke":       (*run).revoke,
	"re-enroll":    (*run).reenroll,
	"attach-twice": (*run).attachTwice,
	"attach-once":  (*run).attachOnce,
	"rival":        (*run).rival,
})

// instantiate ends the instantiation of the instance, once its machine is ready.
func (r *run) instantiate(ctx context.Context, _ Step) error {
	return r.site.Operate(ctx, &r.storage, api.Instantiate, r.t.TempDir(), "--wait")
}

// loseServer takes the machine away, with its root disk, and names another server in
// its place, at the same address and with the same volumes.
func (r *run) loseServer() (lost string, err error) {
	if err := r.node.Destroy(); err != nil {
		return "", err
	}
	lost, r.storage.Server.ID = r.storage.Server.ID, uuid.NewString()
	return lost, nil
}

// replace puts another server in the place of the machine, and the operator revokes the
// old one.
func (r *run) replace(ctx context.Context, s Step) error {
	lost, err := r.loseServer()
	if err != nil {
		return err
	}
	if _, err := r.site.Hitchctl(ctx, "node", "revoke", lost); err != nil {
		return err
	}
	return r.boot(ctx)
}

// heal does the same as Tacker, with an operation.
func (r *run) heal(ctx context.Context, s Step) error {
	var err error
	if r.lost, err = r.loseServer(); err != nil {
		return err
	}
	if err := r.site.Operate(ctx, &r.storage, api.Heal, r.t.TempDir()); err != nil {
		return err
	}
	return r.boot(ctx)
}

// healed: the operation is completed, and the lost server is refused.
func (r *run) healed(ctx context.Context, _ Step) error {
	if _, err := r.site.Hitchctl(ctx, "wait", "operation", r.storage.Instance+"/2", "--timeout", "60s"); err != nil {
		return err
	}
	var node api.Node
	if err := r.site.JSON(ctx, &node, "get", "node", r.lost); err != nil {
		return err
	}
	if node.State != api.NodeRevoked {
		return fmt.Errorf("the server that was lost is %s, expected %s", node.State, api.NodeRevoked)
	}
	return nil
}

func (r *run) revoke(ctx context.Context, _ Step) error {
	_, err := r.site.Hitchctl(ctx, "node", "revoke", r.storage.Server.ID)
	r.cutOff = err == nil
	return err
}

func (r *run) reenroll(ctx context.Context, _ Step) error {
	_, err := r.site.Hitchctl(ctx, "node", "reenroll", r.storage.Server.ID)
	r.cutOff = false
	return err
}

// attachTwice says in the topology that another server has the disk as well.
func (r *run) attachTwice(ctx context.Context, s Step) error {
	r.storage.Others = []api.Server{{ID: uuid.NewString(), Name: "other", VolumeIds: []string{r.disks[s.Disk].VolumeID}}}
	return r.announce(ctx)
}

func (r *run) attachOnce(ctx context.Context, _ Step) error {
	r.storage.Others = nil
	return r.announce(ctx)
}

// announce gives the controller the present topology.
func (r *run) announce(ctx context.Context) error {
	_, err := r.site.Announce(ctx, &r.storage, r.address, r.t.TempDir())
	return err
}

// rival announces another instance whose storage server has the same volume. The other
// instance does not get it, because this one uses it.
func (r *run) rival(ctx context.Context, s Step) error {
	rival := site.Storage{
		Instance: uuid.NewString(),
		Server:   api.Server{ID: uuid.NewString(), Name: "rival", VolumeIds: []string{r.disks[s.Disk].VolumeID}},
		Exports:  r.c.Exports,
		Volumes:  r.storage.Volumes,
	}
	if _, err := r.site.Announce(ctx, &rival, r.address, r.t.TempDir()); err != nil {
		return err
	}
	var node api.Node
	if err := r.site.JSON(ctx, &node, "get", "node", rival.Server.ID); err != nil {
		return err
	}
	return wantWithheld(node, "storage MultiAttached")
}
