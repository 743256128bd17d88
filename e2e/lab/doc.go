// Package lab starts real machines for black-box tests and demonstrations:
// systemd-nspawn containers (real systemd and cloud-init, up in 1.5 s) and QEMU
// virtual machines (an own kernel with NFS, udev, reboots, power cuts, disks
// that fail). They share a network of their own in a network namespace, in
// which the lab itself has the address Gateway: there a controller under test
// listens.
//
//	if lacks := lab.Missing(lab.KindNspawn); len(lacks) > 0 { … say them and skip … }
//	l, err := lab.Open(ctx, lab.Options{Log: t.Logf})
//	defer l.Close()
//	controller := l.Command(ctx, "nodehitch-controller", "--listen", "10.10.0.1:9890")
//	node, err := l.Nspawn(ctx, lab.Spec{Name: "storage", ServerID: serverID, UserData: userData})
//	err = node.WaitCloudInit(ctx)
//	out, err := node.Exec(ctx, "systemctl", "is-active", "nodehitch-agent")
//
// Tests use package labtest, which does the first three lines.
//
// A lab leaves nothing on the host. Whatever it makes it writes to a ledger in
// its folder first; Close works through that list, and the next Open does it for a
// run that died without (killed, or a panic outside the test's own goroutine),
// ending processes by pid and start time. Only the image cache stays, in
// $NODEHITCH_CACHE or /var/cache/nodehitch; the first machine of a kind builds
// its image there, from the host's mirror of Debian's archive or $NODEHITCH_MIRROR.
// `go run ./e2e/lab/cmd/lab-image` builds all in advance.
package lab
