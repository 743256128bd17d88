#!/bin/sh
# layer-add.sh BELOW SCRATCH LAYER: installs LAB_PACKAGES from the mirror; LAYER holds what
# that changes of the root BELOW. Run in a mount namespace of its own.
set -eu
below=$1 scratch=$2 layer=$3
mkdir "$scratch/root" "$scratch/work"
mount -t overlay overlay -o "lowerdir=$below,upperdir=$layer,workdir=$scratch/work" "$scratch/root"
root=$scratch/root
mount -t proc proc "$root/proc"
# So that names resolve; a proxy comes by the environment.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
printf '%s\n' "$LAB_SOURCES" >"$root/tmp/online.list"
# Nothing is started while the image is made.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
apt() {
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get --quiet=2 --yes --no-install-recommends \
		-o Dir::Etc::sourcelist=/tmp/online.list "$@"
}
apt update
# LAB_PACKAGES is a list of package names, one word each.
apt install $LAB_PACKAGES
apt clean
rm -rf "$root"/var/lib/apt/lists/* "$root/usr/sbin/policy-rc.d" "$root/tmp/online.list"
umount "$root/proc" "$root"
