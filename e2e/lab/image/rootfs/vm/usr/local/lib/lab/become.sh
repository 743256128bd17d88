#!/bin/busybox sh
# become.sh NAME ADDRESS/BITS SERVER_ID SECONDS: makes a copy out of the
# snapshot a machine of its own. All copies have woken up with the same clock,
# name, machine-id and random numbers. Busybox, for its tools need no linker:
# what is quick elsewhere takes a freshly woken, emulated machine 0.2 s each.
set -eu
name=$1 address=$2 server=$3 now=$4

date -s "@$now" >/dev/null
# Until the kernel's generator is reseeded two copies would make the same keys
# and UUIDs: mix in what only this one has, then RNDRESEEDCRNG (random(4)).
head -c 64 /dev/hwrng >/dev/urandom
perl -e 'open(R, "<", "/dev/urandom") and ioctl(R, 0x5207, 0) or die $!'

echo "$name" >/etc/hostname
hostname "$name"
# systemd takes the machine-id of a virtual machine from its DMI UUID.
echo "$server" | tr -d - >/etc/machine-id

# What cloud-init would have written, for programs that ask which machine this is.
mkdir -p /run/cloud-init
umask 077
printf '{"v1": {"instance_id": "%s", "instance-id": "%s", "local_hostname": "%s"}}\n' \
	"$server" "$server" "$name" >/run/cloud-init/instance-data.json
echo '{"v1": {"datasource": "none: a copy out of the snapshot", "errors": []}}' >/run/cloud-init/result.json

# The interface may still be on its way in. At the next boot it is cloud-init's.
tries=0
while [ ! -e /sys/class/net/eth0 ] && [ $tries -lt 500 ]; do
	usleep 20000
	tries=$((tries + 1))
done
ip address add "$address" dev eth0
ip link set eth0 up
