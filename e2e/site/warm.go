package site

import (
	"context"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Warm has the images and the snapshot of VMs built, so that no later wait is
// spent on them: it starts a VM and takes it away.
func Warm(ctx context.Context, l *lab.Lab) error {
	node, err := l.VM(ctx, lab.Spec{Name: "warm-up"})
	if err != nil {
		return err
	}
	return node.Destroy()
}
