package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/changes"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/controller/hitchctl/upload"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

const applyHelp = `Create a VNF instance or replace its desired parameters: check the request offline
like validate does, send it, and upload the files of the VNF package that the
controller lacks or has with other content. The same request again changes nothing;
another password, or other content of a file, reaches the nodes at once. Run the
command again to continue an interrupted upload where it ended.

"[redacted]", which answers of the controller have in the place of a secret, keeps the
secret if nothing else of its object has changed.

With --stack-id the controller observes the Heat stack. The id may be a name, also of a
stack that is made later: then its servers are found when they call, or with the
next operation.

With --dry-run nothing is changed: the request is checked in the same way, and hitchctl
shows what it would change of the instance and on each node, and which files it would
upload. What other content of a file changes on nodes is not shown.

Without --package the missing files are listed; no operation starts without them.

If somebody else changes, makes or deletes the instance while apply runs, nothing is
applied, and hitchctl shows who changed what. --force replaces it all the same.`

func (a *app) apply() *cobra.Command {
	var i input
	var stackID, name string
	var labels map[string]string
	var dryRun, force bool
	var o output
	cmd := &cobra.Command{
		Use:   "apply INSTANCE_ID -f request.json",
		Short: "Create or replace the parameters of an instance, upload its package files",
		Long:  applyHelp,
		Example: `  hitchctl apply 0b1a5c2e-7c53-4d86-9f0a-8f6f5b0c1d2e -f request.json --package my-vnf/
  hitchctl apply 0b1a5c2e -f request.json --name web --label env=prod,site=tokyo
  hitchctl apply web -f request.json --stack-id vnflcm_0b1a5c2e
  hitchctl apply 0b1a5c2e -f request.json --topology topology.json
  hitchctl apply 0b1a5c2e -f request.json --package my-vnf/ --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: instanceKind.complete(a, true),
		RunE: a.withController(func(ctx context.Context, c *client.Controller, args []string) error {
			// Read first: the check of a large package takes minutes, and what changes meanwhile is
			// somebody else's.
			id, before, unread := readNewInstance(ctx, c, args[0])
			checked, err := a.check(i, request.ReadToSend)
			if err != nil {
				return err
			}
			defer checked.close()
			if unread != nil && len(checked.Faults) == 0 {
				return unread
			}
			if err := a.printFindings(a.err, checked); err != nil || len(checked.Faults) > 0 {
				return cmp.Or(err, errSaid)
			}
			if stackID != "" {
				checked.Spec.StackID = stackID
			}
			if name != "" {
				checked.Spec.Name = &name
			}
			if labels != nil {
				checked.Spec.Labels = labels
			}
			if dryRun {
				return a.planOf(ctx, c, id, before.instance, checked, o)
			}
			return a.applyTo(ctx, c, id, before, force, checked, o)
		}),
	}
	i.flags(cmd)
	cmd.Flags().StringVar(&stackID, "stack-id", "", "id of the Heat stack, or the name that it has or will have")
	cmd.Flags().StringVar(&name, "name", "", "what to call the instance; several may have one name")
	cmd.Flags().StringToStringVar(&labels, "label", nil, "labels of the instance, KEY=VALUE, instead of those that it has")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&force, "force", false, "replace the instance also if somebody else has changed it meanwhile")
	outputFlag(cmd, &o)
	return cmd
}

func (a *app) applyTo(ctx context.Context, c *client.Controller, id string, before snapshot, force bool, checked *checked, o output) error {
	before, after, err := a.put(ctx, c, id, before, force, checked.Spec)
	if err != nil {
		return err
	}
	lacking := filesLacking(after, checked)
	if o == asTable {
		a.printChange(before.instance, after, len(lacking))
	}
	for _, f := range lacking {
		if err := a.uploadOne(ctx, c, id, checked.pack, f); err != nil {
			return err
		}
	}
	if len(lacking) > 0 {
		if after, err = client.Read[api.Instance](c.GetInstance(ctx, id, nil)); err != nil {
			return err
		}
	}
	lacksTopology := false
	if o != asTable {
		if err := a.encode(o, after); err != nil {
			return err
		}
	} else {
		lacksTopology = a.printWarnings(after, checked.Warnings)
	}
	err = a.validateFiles(after)
	a.hintAtMore(id, lacksTopology, len(after.MissingFiles) > 0 && checked.pack == nil)
	return err
}

// applyFlagOf is the flag of each member of the request that has one.
var applyFlagOf = map[string]string{"name": "--name", "labels": "--label", "stackId": "--stack-id", "topology": "--topology"}

// printChange says what the PUT has changed, and how many files follow.
func (a *app) printChange(before, after *api.Instance, files int) {
	name := instanceTitle(after)
	switch {
	case before == nil:
		fmt.Fprintf(a.out, "%s created: %s\n", name, after.Kind)
	case before.DesiredVersion == after.DesiredVersion && renamed(before, after):
		fmt.Fprintf(a.out, "%s changed, version %d\n", name, after.DesiredVersion)
		a.printDifferences(before, after)
	case before.DesiredVersion == after.DesiredVersion && files > 0:
		fmt.Fprintf(a.out, "%s: parameters unchanged, version %d\n  %s to upload\n", name, after.DesiredVersion, count(files, "package file"))
	case before.DesiredVersion == after.DesiredVersion:
		fmt.Fprintf(a.out, "%s unchanged, version %d\n", name, after.DesiredVersion)
	default:
		fmt.Fprintf(a.out, "%s changed, version %d to %d\n", name, before.DesiredVersion, after.DesiredVersion)
		a.printDifferences(before, after)
	}
}

func instanceTitle(i *api.Instance) string {
	return "instance " + screen.Clean(describe.NameAndID(i.Name, i.ID))
}

// renamed reports whether the instance has another name or other labels, which make no version.
func renamed(before, after *api.Instance) bool {
	return before.Name != after.Name || !maps.Equal(before.Labels, after.Labels)
}

func (a *app) printDifferences(before, after *api.Instance) {
	differences := changes.Between(before, after)
	for _, d := range differences {
		fmt.Fprintln(a.out, "  "+screen.Clean(d.String()))
	}
	if len(differences) == 0 {
		fmt.Fprintln(a.out, "  in what is not shown: secrets or vimConnectionInfo")
	}
}

// atTopology is the pointer of a fault of the topology as a whole: it is missing.
const atTopology = "/topology"

// printWarnings prints what the controller warns of, and says whether a topology is missing.
// Warnings that were said already are not said again.
func (a *app) printWarnings(i *api.Instance, said []request.Finding) (lacksTopology bool) {
	for _, w := range i.Warnings {
		if !slices.ContainsFunc(said, func(f request.Finding) bool { return f.Fault == w }) {
			a.warn(subject{instance: i.ID, flags: applyFlagOf}.fault(w))
			lacksTopology = lacksTopology || w.Pointer == atTopology
		}
	}
	return lacksTopology
}

// hintAtMore is the command with what it lacked.
func (a *app) hintAtMore(id string, topology, pack bool) {
	of, again, files := subject{instance: id}, []string{"--topology", "topology.json"}, []string{"--package", "PACKAGE"}
	switch {
	case topology && pack:
		a.printHint(of.words(a.typed(slices.Concat(again, files)...)) + " gives both; " + aboutPackage + "; " + topologyForm)
	case topology:
		a.printHint(of.words(a.typed(again...)) + " gives them; " + topologyForm)
	case pack:
		a.printHint(of.words(a.typed(files...)) + " uploads them; " + aboutPackage)
	}
}

// filesLacking are those that the controller lacks or has with other content.
func filesLacking(i *api.Instance, checked *checked) []request.File {
	return slices.DeleteFunc(slices.Clone(checked.files), func(f request.File) bool {
		return slices.ContainsFunc(i.Files, func(p api.PackageFile) bool { return p.Path == f.Path && p.Sha256 == f.SHA256 })
	})
}

func (a *app) uploadOne(ctx context.Context, c *client.Controller, id string, pack *request.Package, f request.File) error {
	bar := present.NewBar(a.err, f.Path, f.SizeBytes, a.now)
	defer bar.Done()
	u := upload.Uploader{Controller: c, InstanceID: id, Progress: bar.Sent}
	_, err := u.Upload(ctx, upload.File{
		Path: f.Path, SHA256: f.SHA256, SizeBytes: f.SizeBytes,
		Open: func() (io.ReadCloser, error) {
			content, _, err := pack.Content(f.Path)
			return content, err
		},
	})
	return err
}

// validateFiles says which files are missing or wrong.
func (a *app) validateFiles(i *api.Instance) error {
	faulty := false
	for _, f := range i.Files {
		for _, fault := range f.Faults {
			a.printErrorLine(screen.CleanLines(f.Path + ": " + fault.String()))
			faulty = true
		}
	}
	if len(i.MissingFiles) > 0 {
		a.warn(count(len(i.MissingFiles), "package file") + " missing; an operation does not start before they are there")
		for _, path := range i.MissingFiles {
			fmt.Fprintln(a.err, "  "+screen.Clean(path))
		}
	}
	if faulty {
		return errSaid
	}
	return nil
}
