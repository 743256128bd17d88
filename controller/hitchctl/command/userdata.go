package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
	"github.com/nodehitch/nodehitch/shared/durable"
	"github.com/nodehitch/nodehitch/shared/params"
)

func (a *app) joinToken() *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "join-token INSTANCE_ID", Short: "Show an instance's join token",
		Long: `Show the join token that user_data of every VM of the instance carries. It is good
only for servers that the topology expects and that have no live identity.`,
		Example: "  hitchctl get join-token 0b1a5c2e", Args: cobra.ExactArgs(1),
		ValidArgsFunction: instanceKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := instanceKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			token, err := client.Read[api.JoinToken](c.GetJoinToken(ctx, id))
			if err != nil {
				return err
			}
			if o != asTable {
				return a.encode(o, token)
			}
			return a.print(token.Token)
		}),
	}
	outputFlag(cmd, &o)
	return cmd
}

func (a *app) render() *cobra.Command {
	return group(&cobra.Command{
		Use: "render", Short: "Render what VMs are started with",
		Example: `  hitchctl render user-data 0b1a5c2e --file user-data.yaml
  hitchctl render hot ./templates
  hitchctl render hot-parameters 0b1a5c2e --file nodehitch.yaml`,
	}, a.userData(), a.hot(), a.hotParameters())
}

func (a *app) userData() *cobra.Command {
	var urls []string
	var file, script string
	cmd := &cobra.Command{
		Use: "user-data INSTANCE_ID", Short: "Render the user_data with which a VM becomes a node of the instance",
		Long: `Render the user_data for every VM of the instance: a cloud-config with the
controller's names, its root certificate and pin, the instance's join token, and a
small downloader for the agent. It is the same for all VMs, now and a year later.

With --cluster-script it is for masters and workers, and also has a script that makes a
machine a member of its Kubernetes cluster. They run it when the facts of their cluster change.
The script is left out if the instance's parameters have kubernetes: nodehitch makes the cluster.`,
		Example: `  hitchctl render user-data 0b1a5c2e --file user-data.yaml
  hitchctl render user-data 0b1a5c2e --controller-url https://192.0.2.10:8443 > user-data.yaml
  hitchctl render user-data 0b1a5c2e --cluster-script kubeadm.sh --file members.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: instanceKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := instanceKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			p, err := nodeParams(ctx, c, id, urls)
			if err != nil {
				return err
			}
			packed, err := clusterScript(script)
			if err != nil {
				return err
			}
			if packed != "" {
				instance, err := client.Read[api.Instance](c.GetInstance(ctx, id, nil))
				if err != nil {
					return err
				}
				if hasKubernetes(instance.AdditionalParams) {
					packed = ""
					a.warn(script + " is left out: the instance's parameters have kubernetes, so nodehitch makes the cluster and no script joins machines to it")
				}
			}
			text, err := cloudinit.Render(p, packed)
			if err != nil {
				return err
			}
			return a.secretFile(file, text, "user_data")
		}),
	}
	cmd.Flags().StringArrayVar(&urls, "controller-url", nil, "URL by which the VMs reach the controller, may be repeated (default those that the controller names)")
	cmd.Flags().StringVar(&file, "file", "", "file to write, mode 0600 (default standard output)")
	clusterScriptFlag(cmd, &script)
	return cmd
}

func clusterScriptFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "cluster-script", "", "script that masters and workers run when the facts of their cluster change")
}

// hasKubernetes reports whether nodehitch makes the cluster of an instance. Its parameters may be
// redacted.
func hasKubernetes(additionalParams json.RawMessage) bool {
	p, report := params.Parse(additionalParams, "")
	if p == nil {
		p = report.Partial
	}
	return p != nil && p.Cluster != nil && p.Cluster.Kubernetes != nil
}

// clusterScript packs the script in a file; without a file there is none.
func clusterScript(file string) (cloudinit.ClusterScript, error) {
	if file == "" {
		return "", nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	packed, err := cloudinit.PackClusterScript(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return packed, nil
}

// nodeParams are what makes a VM a node of the instance.
func nodeParams(ctx context.Context, c *client.Controller, id string, urls []string) (cloudinit.Params, error) {
	p, err := trustParams(ctx, c, urls)
	if err != nil {
		return cloudinit.Params{}, err
	}
	token, err := client.Read[api.JoinToken](c.GetJoinToken(ctx, id))
	if err != nil {
		return cloudinit.Params{}, err
	}
	p.JoinToken = token.Token
	return p, nil
}

// trustParams are those that name the controller. Without urls they are those that it names.
func trustParams(ctx context.Context, c *client.Controller, urls []string) (cloudinit.Params, error) {
	trust, err := client.Read[api.Trust](c.GetTrust(ctx))
	if err != nil {
		return cloudinit.Params{}, err
	}
	if len(urls) == 0 {
		urls = trust.Urls
	}
	return cloudinit.Params{ControllerURLs: urls, RootPEM: []byte(trust.RootCertificate), Pin: trust.Pin}, nil
}

// secretFile writes what was rendered to the file, or to standard output if there
// is none.
func (a *app) secretFile(path string, text []byte, what string) error {
	if path == "" || path == "-" {
		to := io.Writer(a.out)
		if !a.out.TTY { // it has to be exact
			to = a.out.Writer
		}
		_, err := to.Write(text)
		return err
	}
	if err := writePrivate(path, text); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s: %d bytes of %s\n", path, len(text), what)
	return nil
}

// writePrivate writes a file that contains a secret: for its owner alone, whole or
// not at all.
func writePrivate(path string, text []byte) error {
	path, err := durable.Destination(path)
	if err != nil {
		return err
	}
	return durable.Write(path, text, 0o600)
}
