package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/connect"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
	"github.com/nodehitch/nodehitch/shared/params"
)

const configHelp = `Show the contexts of hitchctl and choose one. They are in
~/.config/nodehitch/hitchctl.yaml, or in the file that NODEHITCH_CONFIG names: one
context at its top, which is called default, or several.

    currentContext: berlin
    contexts:
      berlin: {server: "https://192.0.2.1:8443", caFile: berlin.pem, tokenFile: berlin.token}
      tokyo:
        server: ["https://192.0.2.9:8443", "https://192.0.2.10:8443"]
        caFile: tokyo.pem
        tokenFile: tokyo.token

Several URLs are those of controllers that share an etcd.`

// config needs no controller.
func (a *app) config() *cobra.Command {
	return group(&cobra.Command{
		Use: "config", Short: "Show and choose contexts: which controller, which token", Long: configHelp,
		Example: "  hitchctl config get-contexts\n  hitchctl config use-context berlin\n  hitchctl config set-context berlin --server https://192.0.2.1:8443,https://192.0.2.2:8443",
	}, a.getContexts(), a.useContext(), a.setContext(), a.viewConfig())
}

func (a *app) getContexts() *cobra.Command {
	var noHeaders bool
	cmd := &cobra.Command{
		Use: "get-contexts", Short: "List the contexts; * marks the one in use", Args: cobra.NoArgs,
		Example: "  hitchctl config get-contexts",
		RunE: a.run(func(context.Context, []string) error {
			file, err := connect.Open(a.getenv)
			if err != nil {
				return err
			}
			all := file.All()
			if len(all) == 0 {
				fmt.Fprintf(a.err, "no contexts in %s\n", file.Path())
				return nil
			}
			t := screen.Table{Columns: []screen.Column{{Title: "CURRENT"}, {Title: "NAME"}, {Title: "SERVER", Flexible: true}}, Bare: noHeaders}
			for _, name := range file.Names() {
				mark := ""
				if name == file.Current() {
					mark = "*"
				}
				t.Add(screen.Text(mark), screen.Text(name), screen.Text(strings.Join(all[name].Server.List(), ", ")))
			}
			return a.print(a.out.Lines(t)...)
		}),
	}
	cmd.Flags().BoolVar(&noHeaders, "no-headers", false, "leave out the head of the table")
	return cmd
}

func (a *app) useContext() *cobra.Command {
	return &cobra.Command{
		Use: "use-context NAME", Short: "Use a context from now on", Args: cobra.ExactArgs(1),
		Long: `Make a context the one in use. --context uses another one for one command. The file is
written anew, without its comments.`,
		Example:           "  hitchctl config use-context berlin",
		ValidArgsFunction: a.completeContext,
		RunE: a.run(func(ctx context.Context, args []string) error {
			if _, err := a.change(ctx, func(file *connect.File) error { return file.Use(args[0]) }); err != nil {
				return err
			}
			return a.print("the context in use is " + args[0])
		}),
	}
}

func (a *app) setContext() *cobra.Command {
	return &cobra.Command{
		Use: "set-context NAME", Short: "Change a context, or add one", Args: cobra.ExactArgs(1),
		Long: `Set the members of a context that flags name: --server (all URLs of it), --ca and
--token-file. The others stay. The file is written anew, without its comments.`,
		Example: `  hitchctl config set-context default --server https://192.0.2.1:8443,https://192.0.2.2:8443
  hitchctl config set-context tokyo --server https://192.0.2.9:8443 --ca tokyo.pem --token-file tokyo.token`,
		ValidArgsFunction: a.completeContext,
		RunE: a.run(func(ctx context.Context, args []string) error {
			path, err := a.change(ctx, func(file *connect.File) error {
				changed, err := file.All()[args[0]].Changed(a.target)
				if err != nil {
					return err
				}
				file.Set(args[0], changed)
				return file.Save()
			})
			if err != nil {
				return err
			}
			return a.print("context " + args[0] + " written to " + path)
		}),
	}
}

// change has the context file changed by nobody else meanwhile, and returns its path.
func (a *app) change(ctx context.Context, change func(*connect.File) error) (path string, err error) {
	path, err = connect.Path(a.getenv)
	switch {
	case err != nil:
		return "", err
	case path == "":
		return "", errors.New("there is no context file, because no home directory is set; set HOME, or NODEHITCH_CONFIG to the file")
	}
	unlock, err := connect.Lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer unlock()
	file, err := connect.OpenPath(path)
	if err != nil {
		return "", err
	}
	return path, change(file)
}

func (a *app) viewConfig() *cobra.Command {
	raw, o := false, asYAML
	cmd := &cobra.Command{
		Use: "view", Short: "Print the context file, without its tokens", Args: cobra.NoArgs,
		Example: "  hitchctl config view\n  hitchctl config view -o json\n  hitchctl config view --raw",
		RunE: a.run(func(context.Context, []string) error {
			file, err := connect.Open(a.getenv)
			if err != nil {
				return err
			}
			if !raw {
				file = file.Redacted(params.Redacted)
			}
			return a.encode(o, file)
		}),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "with the tokens")
	names := []string{string(asYAML), string(asJSON), asJSONPath}
	cmd.Flags().VarP(&choice{&o, names}, "output", "o", "format: "+strings.Join(names, ", "))
	completeFlag(cmd, "output", names...)
	return cmd
}

// completeContext offers the names of contexts for completion by the shell.
func (a *app) completeContext(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	file, err := connect.Open(a.getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}
