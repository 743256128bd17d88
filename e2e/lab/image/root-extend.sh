#!/bin/sh
# root-extend.sh ROOT: installs LAB_PACKAGES, and downloads those that a machine of the lab
# may install later (LAB_OFFLINE), with what they need on top of this root, into an apt
# repository inside the machine. Run in a mount namespace of its own.
set -eu
root=$1 repo=/srv/repo
mount -t proc proc "$root/proc"
# So that names resolve; a proxy comes by the environment.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
printf '%s\n' "$LAB_SOURCES" >"$root/tmp/online.list"
# Nothing is started while the image is made.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root$repo/partial"
chown _apt "$root$repo/partial" 2>/dev/null || true
apt() {
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get --quiet=2 --yes --no-install-recommends \
		-o Dir::Etc::sourcelist=/tmp/online.list "$@"
}
apt update
# Both are lists of package names, one word each. The lab makes its own initrd.
INITRD=No apt install $LAB_PACKAGES
apt --download-only -o Dir::Cache::archives=$repo install $LAB_OFFLINE
apt clean
rm -rf "$root$repo/partial" "$root$repo/lock" "$root"/var/lib/apt/lists/* "$root/usr/sbin/policy-rc.d" "$root/tmp/online.list"
cd "$root$repo"
apt-ftparchive packages . >Packages
cd /
umount "$root/proc"
