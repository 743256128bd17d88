package command

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/present"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client"
)

// asKubeconfig is a file for kubectl.
const asKubeconfig output = "kubeconfig"

func (a *app) clusterAccess() *cobra.Command {
	var o output
	var file string
	cmd := &cobra.Command{
		Use: "cluster-access INSTANCE_ID", Short: "Show how a VIM uses the Kubernetes cluster of an instance",
		Long: `Show the address of the instance's cluster, and with -o kubeconfig, json or yaml also
its CA's certificate and the token of the VIM's service account. The parameters of the
instance must have cluster_members. The token changes before it expires. Each reading
is in the controller's log.`,
		Example: `  hitchctl get cluster-access 0b1a5c2e
  hitchctl get cluster-access 0b1a5c2e -o kubeconfig --file cluster.kubeconfig`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: instanceKind.complete(a, true),
		RunE: a.quick(func(ctx context.Context, c *client.Controller, args []string) error {
			id, err := instanceKind.resolve(ctx, c, args[0])
			if err != nil {
				return err
			}
			access, err := client.Read[api.ClusterAccess](c.GetClusterAccess(ctx, id))
			if err != nil {
				return err
			}
			text, err := a.accessAs(o, id, *access)
			if err != nil {
				return fmt.Errorf("encoding the output: %w", err)
			}
			return a.secretFile(file, text, "access to a cluster")
		}),
	}
	outputFlag(cmd, &o, asKubeconfig)
	cmd.Flags().StringVar(&file, "file", "", "file to write, mode 0600 (default standard output)")
	return cmd
}

// accessAs is the access in a format. A table has no secret.
func (a *app) accessAs(o output, id string, access api.ClusterAccess) ([]byte, error) {
	switch o {
	case asTable:
		return []byte(strings.Join(a.out.Lines(present.View{Now: a.now()}.ClusterAccess(access)), "\n") + "\n"), nil
	case asKubeconfig:
		return kubeconfig("nodehitch-"+describe.Short(id), access)
	}
	return encoded(o, access)
}

// kubeconfig is the access as kubectl reads it, with one name for cluster, user and context.
func kubeconfig(name string, access api.ClusterAccess) ([]byte, error) {
	type object = map[string]any
	return yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{
			"server": "https://" + access.Endpoint, "certificate-authority-data": base64.StdEncoding.EncodeToString([]byte(access.CACertificate)),
		}}},
		"users":    []object{{"name": name, "user": object{"token": access.Token}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name}}},
	})
}
