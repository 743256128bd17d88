#!/bin/busybox sh
# The whole initrd: the drivers of the root disk, in the order in which they
# need each other, then the root. A full initramfs takes an emulated machine seconds.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
	[ ! -f /modules/$module.ko ] || $b insmod /modules/$module.ko
done
if $b grep -q lab.probe /proc/cmdline; then
	echo lab: the probe came up >/dev/ttyS0
	exec $b poweroff -f
fi
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 200 ]; do
	$b usleep 50000
	tries=$((tries + 1))
done
$b mount -t ext4 -o rw,noatime /dev/vda /root || exec $b poweroff -f
$b umount /proc
$b umount /sys
$b mount -o move /dev /root/dev
exec $b switch_root /root /lib/systemd/systemd
