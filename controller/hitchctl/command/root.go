package command

import (
	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/shared/version"
)

const rootHelp = `hitchctl talks to a nodehitch controller, which brings the virtual machines of a
Tacker VNF to their role.

Where the controller is and who you are comes from flags, from the environment
(NODEHITCH_SERVER, NODEHITCH_CA: a file or the PEM itself, NODEHITCH_TOKEN), or from
~/.config/nodehitch/hitchctl.yaml (server, ca or caFile, pin, token or tokenFile; see
"hitchctl token create --write-context"; NODEHITCH_CONFIG names another file).
Root on the controller's own machine needs none of it: hitchctl uses the controller's
unix socket. Only the controller's root certificate is trusted.

Name an object by an unambiguous beginning of its id; nodes, volumes and tokens also by
name. Name an operation INSTANCE/NUMBER, or by its number alone if only one instance has
that number.

Exit codes: 0 done; 1 refused, failed, faults found, or timed out; 2 the
command line makes no sense; 130 interrupted. With -o json, standard output holds
the objects of the API as its OpenAPI document has them, and nothing else; validate
and backup have objects of their own. Warnings and progress are on standard error.`

// root is the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "hitchctl",
		Short:             "Operate a nodehitch controller",
		Long:              rootHelp,
		Version:           version.Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.target.Server, "server", "", "the controller: https://host:port, or unix:///path of its socket")
	flags.StringVar(&a.target.CAFile, "ca", "", "file with the controller's root certificate (PEM)")
	flags.StringVar(&a.target.TokenFile, "token-file", "", "file with the API token, readable only by you")
	root.SetOut(a.out)
	root.SetErr(a.err)
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("lcm", "Life cycle of a VNF instance:", a.validate(), a.apply(), a.render(), a.operate(), a.wait(), a.delete())
	group("show", "Show:", a.get(), a.describe())
	group("decide", "Decide:", a.node(), a.volume(), a.token(), a.joinToken())
	group("keep", "Keep and restore:", a.backup(), a.confirmInstances())
	root.AddCommand(a.man(), a.version())
	return root
}

// version prints which build this is.
func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of hitchctl", Args: cobra.NoArgs,
		Example: "  hitchctl version",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write([]byte("hitchctl version " + version.Version + "\n"))
			return err
		},
	}
}
