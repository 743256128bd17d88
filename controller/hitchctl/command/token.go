package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/hitchctl/connect"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) token() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Make, revoke and confirm API tokens", Args: cobra.NoArgs,
		Example: "  hitchctl token create alice\n  hitchctl token revoke alice",
		RunE:    func(*cobra.Command, []string) error { return usagef("say what to do: create, revoke or confirm") },
	}
	cmd.AddCommand(a.tokenCreate(), a.tokenRevoke(), a.tokenConfirm())
	return cmd
}

type tokenFlags struct {
	scope   string
	expires time.Duration
	context string
	server  string
	output  output
}

func (a *app) tokenCreate() *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make an API token; its secret is shown this once",
		Long: `Make an API token. Its secret is printed this once and kept nowhere: the controller
has only its hash. With --write-context a complete context file (server, root
certificate, token) is written instead, for hitchctl on another machine.`,
		Example: `  hitchctl token create alice > alice.token
  hitchctl token create dashboard --scope viewer --expires-in 720h
  hitchctl token create alice --write-context ~/.config/nodehitch/hitchctl.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			return a.createToken(ctx, c, args[0], f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.scope, "scope", string(api.ScopeOperator), "operator, or viewer (reads, and no secrets)")
	flags.DurationVar(&f.expires, "expires-in", 0, "lifetime, a minute or more (default unlimited)")
	flags.StringVar(&f.context, "write-context", "", "write a context file for hitchctl with the token, mode 0600")
	flags.StringVar(&f.server, "context-server", "", "URL of the controller in the context file (default the first that agents use)")
	outputFlag(cmd, &f.output, asTable, asJSON, asYAML)
	return cmd
}

func (a *app) createToken(ctx context.Context, c *client.Controller, name string, f tokenFlags) error {
	body := api.TokenRequest{Name: name, Scope: api.Scope(f.scope), ExpiresInSeconds: int64(f.expires / time.Second)}
	switch {
	case !body.Scope.Valid():
		return usagef("--scope %q: expected operator or viewer", f.scope)
	case f.expires < 0 || f.expires > 0 && f.expires < time.Minute:
		return usagef("--expires-in %s: expected a minute or more", f.expires)
	}
	var trust *api.Trust
	if f.context != "" {
		var err error
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
		return a.writeContext(f, *trust, made.Secret)
	case f.output != asTable:
		return a.encode(f.output, made)
	}
	fmt.Fprintf(a.err, "token %s (%s, %s); this is its secret, shown only now:\n", made.Token.ID, made.Token.Name, made.Token.Scope)
	return a.print(made.Secret)
}

func (a *app) writeContext(f tokenFlags, trust api.Trust, secret string) error {
	server := f.server
	if server == "" && len(trust.Urls) > 0 {
		server = trust.Urls[0]
	}
	text, err := connect.Context{Server: server, CA: trust.RootCertificate, Pin: trust.Pin, Token: secret}.Encode()
	if err != nil {
		return fmt.Errorf("encoding the context: %w", err)
	}
	if err := writePrivate(f.context, text); err != nil {
		return err
	}
	return a.print("context for " + server + " written to " + f.context)
}

func (a *app) tokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "Revoke an API token at once", Args: cobra.ExactArgs(1),
		Example:           "  hitchctl token revoke alice",
		ValidArgsFunction: a.complete("token", true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			all, err := listTokens(ctx, c)
			if err != nil {
				return err
			}
			id, err := choose("token", args[0], names(all, tokenName))
			if err != nil {
				return err
			}
			if err := client.Done(c.RevokeToken(ctx, id)); err != nil {
				return err
			}
			return a.print("token " + id + " revoked")
		}),
	}
}
