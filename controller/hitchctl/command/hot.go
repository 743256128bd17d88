package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/shared/client"
)

func (a *app) hot() *cobra.Command {
	var tacker, force bool
	var script string
	cmd := &cobra.Command{
		Use: "hot DIRECTORY", Short: "Write the Heat templates of the VNFs into a directory",
		Long: `Write the Heat templates whose servers become nodes: simple, simple-storage,
complex, complex-storage and registry, with their nested templates and an example of an
environment file. You may change them, but leave what makes a server a node as it is:
nodehitch-agent.yaml, and with --tacker cloud_config, cluster_config and each role's agent in
the base HOT. --cluster-script names a file that makes a machine a member of its Kubernetes
cluster: it goes into the user_data of masters and workers, which run it when the facts of
their cluster change. Templates in the directory that differ are kept, unless --force replaces them.`,
		Example: `  hitchctl render hot ./templates
  openstack stack create -t templates/simple.yaml -e environment.yaml -e nodehitch.yaml my-cluster
  hitchctl render hot ./templates --cluster-script kubeadm.sh
  hitchctl render hot ./my-vnf-package --tacker`,
		Args: cobra.ExactArgs(1),
		RunE: a.run(func(_ context.Context, args []string) error {
			files := hot.Files()
			if tacker {
				files = hot.TackerFiles()
			}
			packed, err := clusterScript(script)
			if err != nil {
				return err
			}
			if packed != "" {
				for name, text := range files {
					files[name] = hot.WithClusterScript(text, packed)
				}
			}
			differing, err := hot.Differing(args[0], files)
			if err != nil {
				return err
			}
			if len(differing) > 0 && !force {
				return errorWithHint{
					fmt.Errorf("nothing was written: in %s, these files differ from those of this hitchctl (edited, or of another version):\n  %s", args[0], strings.Join(differing, "\n  ")),
					"`hitchctl render hot DIRECTORY` writes into another directory, and keeps them; " + a.typed("--force") + " overwrites them, and what was edited is lost",
				}
			}
			if err := hot.Write(args[0], files); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "%s: %d files\n", args[0], len(files))
			return nil
		}),
	}
	clusterScriptFlag(cmd, &script)
	cmd.Flags().BoolVar(&force, "force", false, "replace templates that differ")
	cmd.Flags().BoolVar(&tacker, "tacker", false, "as a VNF package for Tacker's v1 API has them: BaseHOT/<flavour> and nested")
	return cmd
}

func (a *app) hotParameters() *cobra.Command {
	var urls []string
	var file string
	var additional bool
	cmd := &cobra.Command{
		Use: "hot-parameters INSTANCE_ID", Short: "Render the Heat parameters that make servers nodes of the instance",
		Long: `Render an environment file for Heat with the parameters that make servers nodes of
the instance: the controller's names, its root certificate and pin, and the
instance's join token, which is a secret. They stay the same for the lifetime of the stack.

With --tacker the same as JSON, for the additionalParams of an instantiate request,
from which Tacker's UserData takes a base HOT's parameters. The root certificate is there twice,
as PEM and as a list of its lines: base HOTs for Tacker's v1 API take the list.`,
		Example: `  hitchctl render hot-parameters 0b1a5c2e --file nodehitch.yaml
  openstack stack create -t simple-storage.yaml -e environment.yaml -e nodehitch.yaml my-cluster
  hitchctl render hot-parameters 0b1a5c2e --tacker --file additional-params.json`,
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
			render := hot.Environment
			if additional {
				render = hot.AdditionalParams
			}
			text, err := render(p)
			if err != nil {
				return err
			}
			return a.secretFile(file, text, "parameters for Heat")
		}),
	}
	cmd.Flags().StringArrayVar(&urls, "controller-url", nil, "URL by which the VMs reach the controller, may be repeated (default those that the controller names)")
	cmd.Flags().BoolVar(&additional, "tacker", false, "JSON for additionalParams")
	cmd.Flags().StringVar(&file, "file", "", "file to write, mode 0600 (default standard output)")
	return cmd
}
