package cases

import (
	"context"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// boot makes the machine, tells the controller of it, and brings the agent onto it:
// a VM out of the snapshot gets it injected, a container by its own cloud-init.
func (r *run) boot(ctx context.Context) error {
	spec := lab.Spec{Name: r.storage.Server.Name, ServerID: r.storage.Server.ID, Address: r.address}
	for _, d := range r.c.Disks {
		if d.Later && r.node == nil {
			continue
		}
		spec.Disks = append(spec.Disks, r.disks[d.Name])
	}
	if r.c.Machine == lab.KindNspawn {
		return r.bootContainer(ctx, spec)
	}
	node, err := r.site.Lab.VM(ctx, spec)
	if err != nil {
		return err
	}
	r.inhabit(node)
	return r.site.Inhabit(ctx, &r.storage, node, r.t.TempDir())
}

func (r *run) bootContainer(ctx context.Context, spec lab.Spec) (err error) {
	spec.UserData, err = r.site.Announce(ctx, &r.storage, spec.Address, r.t.TempDir())
	if err != nil {
		return err
	}
	node, err := r.site.Lab.Nspawn(ctx, spec)
	if err != nil {
		return err
	}
	r.inhabit(node)
	// Without a kernel that serves NFS, there is no point in installing the server's
	// package, which takes longer than all the rest; this is done while cloud-init is
	// still running, long before there is an agent.
	_, err = node.Exec(ctx, "truncate", "-s", "0", "/etc/apt/sources.list")
	return err
}

// inhabit makes the node the case's own; it goes when the case ends.
func (r *run) inhabit(node lab.Node) {
	r.node = node
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.showMachine()
		}
		if err := node.Destroy(); err != nil {
			r.t.Error(err)
		}
	})
}

// showMachine logs what helps to understand a failure.
func (r *run) showMachine() {
	for _, observe := range [][]string{
		{"nodehitch-agent", "status"},
		{"journalctl", "-u", "nodehitch*", "--no-pager", "-n", "60"},
		{"findmnt", "-t", "ext4,xfs,btrfs"}, {"exportfs", "-s"},
	} {
		out, err := r.node.Exec(context.WithoutCancel(r.t.Context()), observe...)
		r.t.Logf("%v: %v\n%s", observe, err, out)
	}
}
