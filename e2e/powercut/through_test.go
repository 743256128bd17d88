package powercut

import (
	"context"
	"fmt"
)

// through lives the life: each cut in its moment, and after the last all is well.
// Lost is added to as soon as something is found missing.
func (l *life) through(ctx context.Context, cuts []moment, lost *int64) error {
	injected, err := l.inject(ctx)
	if err != nil {
		return err
	}
	for i, m := range cuts {
		if err := l.prepare(ctx, i, m, lost); err != nil {
			return fmt.Errorf("before cut %d, %s: %w", i, m, err)
		}
		if err := l.reach(ctx, m.at); err != nil {
			return fmt.Errorf("before cut %d, %s: %w", i, m, err)
		}
		pause(ctx, m.after)
		if err := l.cut(ctx); err != nil {
			return fmt.Errorf("cut %d, %s: %w", i, m, err)
		}
		if err := l.again(ctx); err != nil {
			return fmt.Errorf("after cut %d, %s: %w", i, m, err)
		}
		if i == 0 {
			if err := l.injectAgain(ctx, <-injected); err != nil {
				return err
			}
		}
	}
	return l.settle(ctx, lost)
}

// injectAgain does what cloud-init does in the boot after one in which it was cut off, or
// whose files were not on the disk yet when the power went (see cloudinit.Render).
func (l *life) injectAgain(ctx context.Context, cutOff error) error {
	const agent, bootstrap = "/etc/systemd/system/multi-user.target.wants/nodehitch-agent.service", "/etc/systemd/system/multi-user.target.wants/nodehitch-bootstrap.service"
	if cutOff == nil {
		_, err := l.node.Exec(ctx, "sh", "-c", "test -e "+agent+" || test -s "+bootstrap+" -a -s /var/lib/nodehitch/bootstrap.py -a -s /etc/nodehitch/agent.yaml")
		if err == nil {
			return nil
		}
	}
	injected, err := l.inject(ctx)
	if err != nil {
		return err
	}
	return <-injected
}

// prepare does what comes before a moment, but for those that come before the machine
// is as it should be.
func (l *life) prepare(ctx context.Context, i int, m moment, lost *int64) error {
	if i == 0 || !m.fresh && m.at < writing {
		return nil
	}
	if err := l.settle(ctx, lost); err != nil {
		return err
	}
	if m.fresh {
		return l.grow(ctx)
	}
	return l.write(ctx)
}

// settle waits for the machine to be as it should be, and counts what is lost.
func (l *life) settle(ctx context.Context, lost *int64) error {
	if err := l.converge(ctx); err != nil {
		return err
	}
	for _, v := range l.volumes {
		n, err := l.lost(ctx, v)
		*lost += n
		if err == nil && n > 0 {
			err = fmt.Errorf("%s: %d bytes are lost", v.name, n)
		}
		if err == nil && v.precious == nil {
			err = l.writePrecious(ctx, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
