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
Root on the controller's own machine needs none of it: the controller's unix socket
is used. Trusted is the controller's root certificate alone.

Objects may be named by an unambiguous beginning of their id, nodes, volumes and
tokens also by their name. An operation is named INSTANCE/NUMBER, or by its number
alone where only one instance has it.

Exit codes: 0 done; 1 refused, failed, faults found, or the time is over; 2 the
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
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.target.Server, "server", "", "the controller: https://host:port, or unix:///path of its socket")
	flags.StringVar(&a.target.CAFile, "ca", "", "file with the controller's root certificate (PEM)")
	flags.StringVar(&a.target.TokenFile, "token-file", "", "file with the API token, readable by you alone")
	root.SetOut(a.out)
	root.SetErr(a.err)
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("lcm", "Life of a VNF instance:", a.validate(), a.apply(), a.render(), a.operate(), a.wait(), a.delete())
	group("look", "Look:", a.get(), a.describe())
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
			_, err := a.out.Write([]byte("hitchctl " + version.Version + "\n"))
			return err
		},
	}
}
