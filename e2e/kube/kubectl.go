package kube

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Kubectl runs kubectl as Admin and returns what it printed, without the white
// space around it. Its error has what it said.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, "", args...)
}

// Apply applies manifests, in YAML or JSON, as Admin.
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	_, err := c.kubectl(ctx, manifests, "apply", "--filename", "-")
	return err
}

// KubectlAs runs kubectl with the kubeconfig in a file and gives it a standard input.
func (c *Cluster) KubectlAs(ctx context.Context, kubeconfig, stdin string, args ...string) (string, error) {
	return c.kubectl(ctx, stdin, append([]string{"--kubeconfig", kubeconfig}, args...)...)
}

func (c *Cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := c.command(ctx, append([]string{"kubectl"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
