#!/bin/sh
# offline-repo.sh ROOT: mmdebstrap runs it in the finished root, while the
# package lists are still there. It downloads the packages that a machine of
# the lab may install later, with what they need on top of this root, into an
# apt repository inside the machine.
set -eu
root=$1
mkdir -p "$root/srv/repo/partial"
chown _apt "$root/srv/repo/partial" 2>/dev/null || true
# LAB_OFFLINE is a list of package names, one word each.
chroot "$root" apt-get --quiet=2 --yes --download-only \
	-o Dir::Cache::archives=/srv/repo install $LAB_OFFLINE
rm -rf "$root/srv/repo/partial" "$root/srv/repo/lock"
cd "$root/srv/repo"
apt-ftparchive packages . >Packages
