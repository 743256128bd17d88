#!/bin/sh
# enter.sh LOWER DIR: the first process of the cloud, in mount, process and host name
# namespaces of its own. It lays DIR/upper over the read-only layers LOWER, says "ready",
# and waits to be killed, with which all other processes and the mounts are gone.
set -eu
lower=$1 dir=$2 root=$2/root
mkdir -p "$dir/upper" "$dir/work" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$dir/upper,workdir=$dir/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/run/lock" "$root/run/mysqld"
chmod 1777 "$root/tmp"
printf '127.0.0.1 localhost cloud\n' >"$root/etc/hosts"
hostname cloud
# Processes whose parents have ended are this one's; ignoring their ends reaps them. It is
# ready no sooner than its root is the new one: others enter by that.
exec chroot "$root" sh -c 'trap "" CHLD; echo ready; exec sleep infinity'
