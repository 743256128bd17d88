package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) volume() *cobra.Command {
	return group(&cobra.Command{
		Use: "volume", Aliases: volumeKind.aliases("volume"), Short: "Decide about a volume that nodehitch does not touch on its own",
		Example: "  hitchctl volume adopt 4a0dbb52 --filesystem-uuid 7f0c…\n  hitchctl volume reformat 4a0dbb52",
	}, a.volumeAdopt(), a.volumeReformat())
}

func (a *app) volumeAdopt() *cobra.Command {
	var uuid string
	var o output
	cmd := &cobra.Command{
		Use: "adopt VOLUME --filesystem-uuid UUID", Short: "Take over a volume with the ext4 filesystem that it holds",
		Long: `Take over a volume that already holds an ext4 filesystem, by naming the filesystem's
UUID (blkid prints it; so does the condition's message). Its content is not changed: it
is mounted where the parameters say.`,
		Example:           "  hitchctl volume adopt 4a0dbb52 --filesystem-uuid 7f0c1b1e-5f0e-4a53-a7d6-0c6f5f1f6f52",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: volumeKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			if !isID(uuid) {
				return usagef("--filesystem-uuid %q: expected a UUID as blkid prints it", uuid)
			}
			id, err := volumeKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			v, err := client.Read[api.Volume](c.AdoptVolume(ctx, id, api.AdoptRequest{FilesystemUUID: strings.ToLower(uuid)}))
			if err != nil {
				return err
			}
			if o != asTable {
				return a.encode(o, v)
			}
			return a.print(fmt.Sprintf("volume %s adopted with filesystem %s", v.ID, v.FilesystemUUID))
		}),
	}
	cmd.Flags().StringVar(&uuid, "filesystem-uuid", "", "UUID of the filesystem that the volume holds")
	_ = cmd.MarkFlagRequired("filesystem-uuid")
	outputFlag(cmd, &o)
	return cmd
}

func (a *app) volumeReformat() *cobra.Command {
	var again string
	var o output
	cmd := &cobra.Command{
		Use: "reformat VOLUME", Short: "Permit one more format of a volume; all its data is lost",
		Long: `Permit one more format of a volume that nodehitch refuses. ALL DATA ON IT IS LOST as
soon as its node sees the permit. This is the only way in which nodehitch overwrites
data. It does not overwrite a disk in use, or a complete ext4 filesystem with the UUID
that the controller assigned: that filesystem is mounted, as always. The
permit is for the node that the volume is attached to now, and ends when it is used,
when that node is replaced, or when you adopt the volume.

On a terminal you type the volume's id; elsewhere give it with --volume-id.`,
		Example: `  hitchctl volume reformat 4a0dbb52
  hitchctl volume reformat 4a0dbb52 --volume-id 4a0dbb52-7d1e-4c8c-9a06-13cbb0a3a4f1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: volumeKind.complete(a, true),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := volumeKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			v, err := client.Read[api.Volume](c.GetVolume(ctx, id, nil))
			if err != nil {
				return err
			}
			if err := a.askVolumeID(ctx, *v, again); err != nil {
				return err
			}
			if v, err = client.Read[api.Volume](c.ReformatVolume(ctx, v.ID, api.ReformatRequest{ConfirmVolumeID: v.ID})); err != nil {
				return err
			}
			if o != asTable {
				return a.encode(o, v)
			}
			return a.print("volume " + v.ID + ": one more format is permitted")
		}),
	}
	cmd.Flags().StringVar(&again, "volume-id", "", "the whole id of the volume, repeated")
	outputFlag(cmd, &o)
	return cmd
}

// askVolumeID makes sure that the user means this volume, whose data will be lost: by
// --volume-id, or by having the id typed on a terminal.
func (a *app) askVolumeID(ctx context.Context, v api.Volume, given string) error {
	if given == "" && (!term.IsTerminal(int(a.in.Fd())) || !a.err.TTY) {
		return usagef("reformatting loses all data of volume %s; confirm with --volume-id %s", v.ID, v.ID)
	}
	if given == "" {
		for _, line := range present.Volume(a.err, v, nil, a.now()) {
			fmt.Fprintln(a.err, line)
		}
		fmt.Fprintln(a.err, a.err.Paint(screen.Bad, "All data on this volume will be lost."))
		fmt.Fprint(a.err, "Type the volume's id to continue: ")
		var err error
		if given, err = readLine(ctx, a); err != nil {
			return err
		}
	}
	if !strings.EqualFold(given, v.ID) {
		return fmt.Errorf("not confirmed: %q is not the volume's id %s; nothing was changed", given, v.ID)
	}
	return nil
}

// readLine reads one line, until ctx ends. The reader is left behind then; the
// process ends with it.
func readLine(ctx context.Context, a *app) (string, error) {
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := bufio.NewReader(a.in).ReadString('\n')
		answers <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case got := <-answers:
		if got.err != nil {
			return "", fmt.Errorf("reading the answer: %w", got.err)
		}
		return strings.TrimSpace(got.text), nil
	}
}
