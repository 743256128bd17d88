package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/connect"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/nearest"
)

func (a *app) create() *cobra.Command {
	return group(&cobra.Command{
		Use: "create", Short: "Make an API token",
		Example: "  hitchctl create token alice",
	}, a.createToken())
}

type tokenFlags struct {
	scope   string
	expires string
	context string // path of the file
	name    string // of the context in it, "" for the only one
	server  []string
	force   bool
	output  output
}

func (a *app) createToken() *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "token NAME", Aliases: tokenKind.aliases("token"), Short: "Make an API token; its secret is shown this once",
		Long: `Make an API token. Its secret is printed this once and kept nowhere: the controller
has only its hash. With --write-context a complete context file (server, root
certificate, token) is written instead, for hitchctl on another machine. A file that is
there is not replaced without --force; with --context-name one more context is added to it.

A token is good for 90 days, unless --expires-in says for how long. With --expires-in never
it has no end: that is for programs that nobody gives another token in time. A second token
of one name is refused: delete the first, or choose another name.`,
		Example: `  hitchctl create token alice > alice.token
  hitchctl create token dashboard --scope viewer --expires-in 30d
  hitchctl create token tacker --scope tacker --expires-in never > tacker.token
  hitchctl create token alice --write-context ~/.config/nodehitch/hitchctl.yaml
  hitchctl create token alice --write-context hitchctl.yaml --context-name berlin`,
		Args: cobra.ExactArgs(1),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			return a.makeToken(ctx, c, args[0], f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.scope, "scope", string(api.ScopeOperator), "operator, viewer (reads, and no secrets), or tacker (what Tacker's hooks need of instances)")
	flags.StringVar(&f.expires, "expires-in", "90d", "lifetime, a minute or more, such as 12h or 30d; never for none")
	flags.StringVar(&f.context, "write-context", "", "write a context file for hitchctl with the token, mode 0600")
	flags.StringVar(&f.name, "context-name", "", "add the context to the file under this name, and keep the others")
	flags.StringSliceVar(&f.server, "context-server", nil, "URLs of the controller in the context file (default those that agents use)")
	flags.BoolVar(&f.force, "force", false, "replace the context file, or the context of that name")
	completeFlag(cmd, "scope", scopes...)
	outputFlag(cmd, &f.output)
	return cmd
}

func (a *app) makeToken(ctx context.Context, c *client.Controller, name string, f tokenFlags) error {
	body := api.TokenRequest{Name: name, Scope: api.Scope(f.scope)}
	if !body.Scope.Valid() {
		return usageError{nearest.Unknown("scope", f.scope, scopes)}
	}
	if f.expires != "never" {
		life, err := parseSpan(f.expires)
		if err != nil || life < time.Minute {
			return usagef("--expires-in %s: expected a minute or more, such as 12h or 30d, or never", f.expires)
		}
		body.ExpiresInSeconds = int64(life / time.Second)
	}
	var trust *api.Trust
	var file *connect.File
	if f.context != "" {
		if err := connect.Join(f.server).Check("--context-server"); err != nil {
			return err
		}
		unlock, err := connect.Lock(ctx, f.context) // before a token is made for nothing
		if err != nil {
			return err
		}
		defer unlock()
		if file, err = a.contextFile(f); err != nil {
			return err
		}
		if trust, err = client.Read[api.Trust](c.GetTrust(ctx)); err != nil {
			return err
		}
	}
	made, err := client.Read[api.NewToken](c.CreateToken(ctx, body))
	if err != nil {
		return err
	}
	switch {
	case trust != nil:
		return a.writeContext(file, f, *trust, *made)
	case f.output != asTable:
		return a.encode(f.output, made)
	}
	fmt.Fprintf(a.err, "token %s (%s, %s) %s; this is its secret, shown only now:\n", made.Token.ID, made.Token.Name, made.Token.Scope, describe.TokenEnd(made.Token))
	return a.print(made.Secret)
}

// contextFile is the file to add the context to. What is there is not lost without --force.
func (a *app) contextFile(f tokenFlags) (*connect.File, error) {
	file, err := connect.OpenPath(f.context)
	if f.force && f.name == "" {
		return connect.NewFile(f.context), nil
	}
	switch {
	case err != nil:
		return nil, err
	case f.name == "" && file.Exists():
		return nil, errorWithHint{fmt.Errorf("%s exists and was not changed, and no token was made", f.context),
			a.typed("--context-name", "CONTEXT") + " adds a context to it, " + a.typed("--force") + " replaces the whole file"}
	case slices.Contains(file.Names(), f.name) && !f.force:
		return nil, errorWithHint{fmt.Errorf("%s has a context %s and was not changed, and no token was made", f.context, f.name), a.typed("--force") + " replaces it"}
	}
	return file, nil
}

func (a *app) writeContext(file *connect.File, f tokenFlags, trust api.Trust, made api.NewToken) error {
	server := connect.Join(f.server)
	if server == "" {
		server = connect.Join(trust.Urls)
	}
	file.Set(f.name, connect.Context{Server: server, CA: trust.RootCertificate, Pin: trust.Pin, Token: made.Secret})
	if err := file.Save(); err != nil {
		return err
	}
	return a.print("context for " + strings.Join(server.List(), ", ") + " written to " + f.context + "; its token " + describe.TokenEnd(made.Token))
}
