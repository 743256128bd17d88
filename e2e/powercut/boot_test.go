package powercut

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// These services do not matter here, and an emulated machine spends most of its boot on
// them. Cloud-init, which has finished before the first cut, costs more than all the
// others.
var (
	idleUnits = []string{
		"systemd-networkd.service", "systemd-networkd.socket", "systemd-logind.service", "systemd-sysusers.service",
		"systemd-sysctl.service", "systemd-update-done.service", "nfs-blkmap.service", "nfs-idmapd.service",
		"nfsdcld.service", "rpc-statd.service", "rpc-statd-notify.service",
	}
	idleGenerators = []string{
		"cloud-init-generator", "systemd-bless-boot-generator", "systemd-cryptsetup-generator", "systemd-debug-generator",
		"systemd-getty-generator", "systemd-gpt-auto-generator", "systemd-hibernate-resume-generator",
		"systemd-integritysetup-generator", "systemd-rc-local-generator", "systemd-run-generator",
		"systemd-system-update-generator", "systemd-sysv-generator", "systemd-veritysetup-generator",
	}
)

// network is what is left of the machine's network without cloud-init. It waits for
// the interface without a limit: the clock of an emulated machine runs several times
// too fast when its host is busy while it boots.
const network = `[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
ExecStart=busybox sh -c "until busybox ip link set eth0 up; do busybox sleep 0.1; done"
ExecStart=busybox ip address add %s/%d dev eth0
`

// coldplug looks for disks and the interface only.
const coldplug = `[Service]
ExecStart=
ExecStart=-udevadm trigger --action=add --subsystem-match=virtio --subsystem-match=block --subsystem-match=net
`

// shortenBoots makes the next boots of the machine short.
func (l *life) shortenBoots(ctx context.Context) error {
	for path, text := range map[string]string{
		"/etc/systemd/system/lab-network.service":                     fmt.Sprintf(network, l.node.Address(), lab.Subnet.Bits()),
		"/etc/systemd/system/systemd-udev-trigger.service.d/lab.conf": coldplug,
		"/etc/cloud/cloud-init.disabled":                              "",
	} {
		if err := l.node.Push(ctx, path, 0o644, []byte(text)); err != nil {
			return err
		}
	}
	const mask = `cd /etc/systemd/system
mkdir -p multi-user.target.wants ../system-generators
ln -sf ../lab-network.service multi-user.target.wants/
for unit in $1; do ln -sf /dev/null "$unit"; done
for generator in $2; do ln -sf /dev/null "../system-generators/$generator"; done
sync # the first cut may come within seconds`
	_, err := l.node.Exec(ctx, "sh", "-euc", mask, "sh", strings.Join(idleUnits, " "), strings.Join(idleGenerators, " "))
	return err
}
