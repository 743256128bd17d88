package host

import (
	"context"
	"os"
)

// KeepalivedConfig is where keepalived reads its configuration.
const KeepalivedConfig = "/etc/keepalived/keepalived.conf"

// Checker is a program that checks a configuration of its own.
type Checker interface {
	// Check runs the program on a configuration that is not in force. If the program refuses it,
	// Refusal has its message.
	Check(ctx context.Context, config []byte) error
}

type keepalived struct{ run *Runner }

func (k *keepalived) Check(ctx context.Context, config []byte) error {
	file, err := writeBeside(KeepalivedConfig, config)
	if err != nil {
		return err
	}
	defer os.Remove(file) //nolint:errcheck // keepalived reads no other file than its own
	_, err = k.run.Run(ctx, keepalivedCheckCommand(file))
	return err
}
