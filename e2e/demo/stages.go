package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/e2e/site"
	"github.com/nodehitch/nodehitch/shared/api"
)

const (
	request    = "shared/params/testdata/persistent-volumes.json" // the PersistentVolume spec's sample, verbatim
	packageDir = "e2e/demo/package"
	volumeSize = 1 << 30
)

// demo is what the stages hand on to each other.
type demo struct {
	site     *site.Site
	watch    *stopwatch
	instance string
	volume   lab.Disk
	server   api.Server
	storage  lab.Node
	client   lab.Node
	booting  errgroup.Group // of the client, beside everything else
}

// instantiate does what a Tacker hook does at instantiate_start, and draws the stack.
func (d *demo) instantiate(ctx context.Context) error {
	d.instance = uuid.NewString()
	volume, err := d.site.Lab.NewDisk(uuid.NewString(), volumeSize)
	if err != nil {
		return err
	}
	d.volume = volume
	d.server = api.Server{
		ID: uuid.NewString(), Name: "storage_server",
		ConnectionPoints: []api.ConnectionPoint{{Name: "storage_server_CP", Addresses: []string{lab.Gateway.Next().String()}}},
		VolumeIds:        []string{volume.VolumeID},
	}
	topology, err := json.MarshalIndent(api.Topology{
		StackID: "demo", StackStatus: "CREATE_COMPLETE",
		Servers: []api.Server{d.server},
		Volumes: []api.TopologyVolume{{ResourceID: "storage_server_volume", ID: volume.VolumeID, SizeBytes: volumeSize}},
	}, "", "  ")
	if err != nil {
		return err
	}
	file := d.file("topology.json")
	if err := os.WriteFile(file, topology, 0o600); err != nil {
		return err
	}
	fmt.Println("\nThe spec's instantiate request, checked before any VM exists")
	if err := d.show(ctx, "validate", "-f", request, "--package", packageDir); err != nil {
		return err
	}
	fmt.Println("\nHanded to the controller with a topology of one storage VM")
	err = d.show(ctx, "apply", d.instance, "-f", request, "--topology", file, "--package", packageDir)
	d.watch.lap("request accepted")
	return err
}

// boot starts the storage VM with nothing but user_data, and a client beside it.
func (d *demo) boot(ctx context.Context) error {
	userData, err := d.site.Hitchctl(ctx, "render", "user-data", d.instance)
	if err != nil {
		return err
	}
	d.booting.Go(func() (err error) {
		d.client, err = d.site.Lab.VM(ctx, lab.Spec{Name: "worker", Address: lab.Gateway.Next().Next(), Cold: true})
		return err
	})
	fmt.Printf("\nA VM boots with %d bytes of user_data: cloud-init fetches and starts the agent\n", len(userData))
	d.storage, err = d.site.Lab.VM(ctx, lab.Spec{
		Name: "storage-server", ServerID: d.server.ID, Address: lab.Gateway.Next(),
		UserData: userData, Disks: []lab.Disk{d.volume}, Cold: true,
	})
	if err != nil {
		return err
	}
	d.watch.lap("storage VM: power on to a shell")
	return nil
}

// converge shows the operation as Tacker's instantiate_end would wait for it.
func (d *demo) converge(ctx context.Context) error {
	err := d.show(ctx, "operate", d.instance, "INSTANTIATE", "--partial", "--wait", "--deadline", "10m")
	if err != nil {
		console, _ := d.storage.Console()
		return fmt.Errorf("%w; the VM's console ends with:\n%s", err, tail(string(console), 30))
	}
	d.watch.lap("user_data to mounted and exported")
	return nil
}

// useVolume mounts the export on a second machine and writes a file through it.
func (d *demo) useVolume(ctx context.Context) error {
	fmt.Println("\nA second machine mounts the export over NFS and writes a file")
	if err := d.booting.Wait(); err != nil {
		return err
	}
	source := d.storage.Address().String() + ":/volume/nfs/pv1"
	for _, argv := range [][]string{
		{"mkdir", "-p", "/mnt/pv1"},
		{"mount", "-t", "nfs4", source, "/mnt/pv1"},
		{"sh", "-c", "echo written by $(hostname) on " + time.Now().Format(time.RFC3339) + " > /mnt/pv1/hello && sync /mnt/pv1/hello"},
		{"umount", "/mnt/pv1"},
	} {
		if _, err := d.client.Exec(ctx, argv...); err != nil {
			return err
		}
	}
	d.watch.lap("second VM: mounted over NFS, wrote a file")
	return nil
}

// summary prints what is there now, from the storage VM itself.
func (d *demo) summary(ctx context.Context) error {
	for _, look := range [][]string{
		{"findmnt", "-o", "TARGET,SOURCE,FSTYPE,UUID", "/volume"},
		{"exportfs", "-s"},
		{"cat", "/volume/nfs/pv1/hello"},
	} {
		out, err := d.storage.Exec(ctx, look...)
		if err != nil {
			return err
		}
		fmt.Printf("\nstorage_server# %s\n%s", strings.Join(look, " "), out)
	}
	fmt.Println("\nHow long it took")
	var total time.Duration
	for _, lap := range d.watch.laps {
		fmt.Printf("  %-55s %7.1f s\n", lap.name, lap.took.Seconds())
		total += lap.took
	}
	fmt.Printf("  %-55s %7.1f s\n", "in all", total.Seconds())
	return nil
}

// show runs hitchctl on the user's own terminal.
func (d *demo) show(ctx context.Context, args ...string) error {
	fmt.Println("$ hitchctl " + strings.Join(args, " "))
	cmd := d.site.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func (d *demo) file(name string) string { return filepath.Join(d.site.Lab.Dir(), name) }

// tail is the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
