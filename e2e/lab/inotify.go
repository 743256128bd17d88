package lab

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// inotifyInstances are enough for some hundred containers: the systemd of each has some
// ten, and all are root's. If none is left, a container stops in its boot. The default of
// Linux is 128.
const inotifyInstances = 2048

const inotifyFile = "/proc/sys/fs/inotify/max_user_instances"

// allowInotify raises the limit if it is lower. It stays raised: another lab may rely on
// it.
func allowInotify() error {
	text, err := os.ReadFile(inotifyFile)
	if err != nil {
		return err
	}
	now, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || now >= inotifyInstances {
		return err
	}
	if err := os.WriteFile(inotifyFile, []byte(strconv.Itoa(inotifyInstances)), 0o644); err != nil {
		return fmt.Errorf("raising the limit of inotify instances from %d: %w", now, err)
	}
	return nil
}
