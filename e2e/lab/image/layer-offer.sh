#!/bin/sh
# layer-offer.sh BELOW SCRATCH LAYER: downloads the packages of LAB_OFFLINE, with
# what they need on top of the root BELOW, into an apt repository in LAYER. Run in
# a mount namespace of its own.
set -eu
below=$1 scratch=$2 layer=$3
mkdir "$scratch/root" "$scratch/upper" "$scratch/work"
mount -t overlay overlay -o "lowerdir=$below,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
root=$scratch/root repo=/srv/repo-engine
mkdir -p "$root$repo/partial"
chown _apt "$root$repo/partial" 2>/dev/null || true
# So that names resolve; a proxy comes by the environment.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
printf '%s\n' "$LAB_SOURCES" >"$root/tmp/online.list"
apt() {
	chroot "$root" apt-get --quiet=2 --yes -o Dir::Etc::sourcelist=/tmp/online.list "$@"
}
apt update
# LAB_OFFLINE is a list of package names, one word each.
apt --no-install-recommends --download-only -o Dir::Cache::archives=$repo install $LAB_OFFLINE
rm -rf "$root$repo/partial" "$root$repo/lock"
cd "$root$repo"
apt-ftparchive packages . >Packages
mkdir -p "$layer/srv"
cp -a "$root$repo" "$layer/srv/"
cd /
umount "$root"
