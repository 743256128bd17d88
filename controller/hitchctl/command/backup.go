package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/backup/archive"
	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/durable"
)

func (a *app) backup() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the controller's state into a file, while it runs",
		Long: `Copy the controller's state, as of now, into a file: its records and the package
files. The controller continues to serve. The file appears only when it is complete, and
every part of it is checked; it replaces a file of the same name. With - it goes to
standard output; exit code 0 means that it is complete.

Secrets in it are sealed; names, addresses and package files are not, so keep the file
private. It does NOT hold the seal key and pki/, the controller's CA:
without them a backup cannot be restored, so keep copies apart from it. The key never
changes; pki/ changes when its certificates are replaced. If controllers share an etcd,
the CA is in the backup, sealed, and only the seal key is not.

nodehitch-controller restore replaces the state by a backup.`,
		Example: `  hitchctl backup nodehitch.tar
  hitchctl backup - | age -r age1… > nodehitch.tar.age`,
		Args: cobra.ExactArgs(1),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			if args[0] == "-" && o != asTable {
				return usagef("-o %s goes to standard output, and so would the backup: name a file", o)
			}
			m, err := a.takeBackup(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.backupTaken(args[0], m, o)
		}),
	}
	outputFlag(cmd, &o)
	return cmd
}

// takeBackup writes a backup to the file, which appears when it is whole.
func (a *app) takeBackup(ctx context.Context, c *client.Controller, path string) (m archive.Manifest, err error) {
	if path == "-" {
		m, err = a.receiveBackup(ctx, c, a.out.Writer)
		if err != nil {
			err = fmt.Errorf("%w; the file is no complete backup", err)
		}
		return m, err
	}
	err = writeWhole(path, func(partial *os.File) (err error) {
		m, err = a.receiveBackup(ctx, c, partial)
		return err
	})
	return m, err
}

// writeWhole makes a file that appears when write has written all of it. It replaces another
// one, and only its owner can read it, unless write changes that.
func writeWhole(path string, write func(*os.File) error) (err error) {
	if path, err = durable.Destination(path); err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.partial") // 0600
	if err != nil {
		return fmt.Errorf("no file can be made in %s: %w", screen.Clean(filepath.Dir(path)), errors.Unwrap(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial.Name()))
		}
	}()
	err = write(partial)
	if err == nil {
		err = partial.Sync()
	}
	if err = errors.Join(err, partial.Close()); err != nil {
		return err
	}
	if err := os.Rename(partial.Name(), path); err != nil {
		return err
	}
	return durable.Directory(filepath.Dir(path))
}

// receiveBackup writes the controller's answer and verifies that it is complete.
func (a *app) receiveBackup(ctx context.Context, c *client.Controller, to io.Writer) (archive.Manifest, error) {
	resp, err := c.GetBackup(ctx)
	if err != nil {
		return archive.Manifest{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return archive.Manifest{}, client.ProblemOf(resp)
	}
	p := &progress{screen: a.err}
	defer p.done()
	skip := func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err }
	m, _, err := archive.Read(io.TeeReader(resp.Body, io.MultiWriter(to, p)), archive.Taker{
		Manifest: func(m archive.Manifest) error { p.whole = m.StoreBytes + m.PackageFileBytes; return nil },
		Store:    func(_ int64, r io.Reader) error { return skip(r) },
		Blob:     func(_ string, _ int64, r io.Reader) error { return skip(r) },
	})
	if err != nil {
		return m, fmt.Errorf("the backup is not complete: %w", err)
	}
	return m, nil
}

// backupTaken says what is in the file and what has to be kept besides.
func (a *app) backupTaken(path string, m archive.Manifest, o output) error {
	if o != asTable {
		return a.encode(o, struct {
			File     string           `json:"file"`
			Manifest archive.Manifest `json:"manifest"`
		}{path, m})
	}
	lines := []string{fmt.Sprintf("%s: the state of %s, %s of records and %s (%s)",
		screen.Clean(path), m.TakenAt.UTC().Format(time.RFC3339), describe.Size(m.StoreBytes), count(m.PackageFiles, "package file"), describe.Size(m.PackageFileBytes))}
	for _, e := range m.Excluded {
		lines = append(lines, fmt.Sprintf("keep apart from it: %s, %s", screen.Clean(e.Name), screen.Clean(e.Path)))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(a.err, line); err != nil {
			return err
		}
	}
	return nil
}

// progress shows on a terminal how much has arrived.
type progress struct {
	screen       *screen.Screen
	whole, have  int64
	shown        time.Time
	anythingSaid bool
}

// Write counts.
func (p *progress) Write(b []byte) (int, error) {
	p.have += int64(len(b))
	if p.screen.TTY && p.whole > 0 && time.Since(p.shown) > 200*time.Millisecond {
		p.shown, p.anythingSaid = time.Now(), true
		fmt.Fprintf(p.screen.Writer, "\r%s of %s ", describe.Size(p.have), describe.Size(p.whole))
	}
	return len(b), nil
}

func (p *progress) done() {
	if p.anythingSaid {
		fmt.Fprint(p.screen.Writer, "\r\x1b[K")
	}
}
