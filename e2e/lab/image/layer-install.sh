#!/bin/sh
# layer-install.sh BELOW SCRATCH LAYER: installs LAB_PACKAGES from the machine's own
# repositories; LAYER holds what that changes of the root BELOW. Run in a mount
# namespace of its own.
set -eu
below=$1 scratch=$2 layer=$3
mkdir "$scratch/root" "$scratch/work"
mount -t overlay overlay -o "lowerdir=$below,upperdir=$layer,workdir=$scratch/work" "$scratch/root"
root=$scratch/root
mount -t proc proc "$root/proc"
# Nothing is started while the image is made.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
apt() {
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get --quiet=2 --yes "$@"
}
apt update
# LAB_PACKAGES is a list of package names, one word each.
apt --no-install-recommends install $LAB_PACKAGES
rm "$root/usr/sbin/policy-rc.d"
umount "$root/proc" "$root"
