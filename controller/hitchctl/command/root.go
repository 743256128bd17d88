package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/failover"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/version"
)

// rootHelp stands behind the list of the commands.
const rootHelp = `A verb that several kinds of objects share comes first, then the kind: "get nodes",
"describe volume", "create token", "delete instance", "confirm token", "wait node". A
group that is named by a kind has what that kind alone has: "node revoke", "volume adopt".

Name an object by an unambiguous beginning of its id; nodes, volumes and tokens also by
name. Name an operation INSTANCE/NUMBER, or by its number alone if only one instance has
that number. KIND/ID, as -o name prints it, stands for KIND ID. Kinds are called node,
nodes or no; instance, instances or vnf; operation, operations or op; volume, volumes
or vol; token or tokens.

Exit codes: 0 done; 1 the command line is right and the command failed: refused, faults
found, timed out, or an object, file or context that it names is not there; 2 the command
line is wrong: a command, kind, flag or value that there is not, or one that is missing;
130 interrupted. With -o json, standard output holds
the objects of the API as its OpenAPI document has them, and nothing else; validate
and backup have objects of their own. Warnings and progress are on standard error.

Where the controller is and who you are comes from flags, from the environment
(NODEHITCH_SERVER, NODEHITCH_CA: a file or the PEM itself, NODEHITCH_TOKEN), or from
a context of ~/.config/nodehitch/hitchctl.yaml (NODEHITCH_CONFIG names another file).
--context names one of several; then the environment does not count. See
"hitchctl create token --write-context" and "hitchctl config".
If several controllers share an etcd, give all URLs, with commas or in the file as a list:
the first that answers is used. A change is never sent twice: if a controller may have
done it, hitchctl says so. While no controller is the leader, it waits for up to 30 s.
Root on the controller's own machine needs none of it: hitchctl uses the controller's
unix socket. Only the controller's root certificate is trusted.`

// root is the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "hitchctl",
		Short:             "Operate a nodehitch controller, which brings the virtual machines of a Tacker VNF to their role",
		Long:              rootHelp,
		Version:           version.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	flags := root.PersistentFlags()
	flags.StringSliceVar(&a.target.Server, "server", nil, "the controller: https://host:port, or unix:///path of its socket; several with commas, or repeated")
	flags.StringVar(&a.target.CAFile, "ca", "", "file with the controller's root certificate (PEM)")
	flags.StringVar(&a.target.TokenFile, "token-file", "", "file with the API token, readable only by you")
	flags.StringVar(&a.target.Context, "context", "", "name of the context to use, instead of the one in use")
	_ = root.RegisterFlagCompletionFunc("context", a.completeContext)
	root.SetOut(a.out)
	root.SetErr(a.err)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasParent() {
			help(cmd, args)
			return
		}
		fmt.Fprintf(a.out, "%s.\n\n%s\n%s\n", cmd.Short, cmd.UsageString(), cmd.Long)
	})
	root.SetFlagErrorFunc(a.flagError)
	section := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	section("lcm", "Life cycle of a VNF instance:", a.validate(), a.apply(), a.render(), a.vnfPackage(), a.operate(), a.wait(), a.cancel(), a.delete())
	section("show", "Show:", a.get(), a.describe(), a.events(), a.whoami(), a.supportBundle())
	section("decide", "Give access and decide:", a.create(), a.node(), a.agents(), a.volume())
	section("keep", "Keep and restore:", a.backup(), a.confirm())
	group(root, a.config(), a.version())
	nameArguments(root)
	ask := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return ask(cmd, args)
	}
	return root
}

// versionWithin is how long the controller has to say its version.
const versionWithin = 5 * time.Second

// version prints which build this is, and which one the controller is, if it answers.
func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of hitchctl, and of the controller if it answers", Args: cobra.NoArgs,
		Example: "  hitchctl version",
		RunE: a.run(func(ctx context.Context, _ []string) error {
			if err := a.print("hitchctl version " + version.Version); err != nil {
				return err
			}
			ctx, cancel := within(failover.AtOnce(ctx), versionWithin)
			defer cancel()
			of, err := a.controllerVersion(ctx)
			if err != nil {
				a.warn("the controller's version is not known: " + err.Error())
				return nil
			}
			return a.print("controller version " + screen.Clean(of.Version))
		}),
	}
}

func (a *app) controllerVersion(ctx context.Context) (*api.Version, error) {
	c, err := a.controller()
	if err != nil {
		return nil, err
	}
	defer c.CloseIdle()
	return client.Read[api.Version](c.GetVersion(ctx))
}
