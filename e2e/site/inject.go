package site

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Inject does on a machine whose cloud-init does not run (a VM out of a
// snapshot) what cloud-init would do with the user_data: instance data, files,
// commands.
func Inject(ctx context.Context, node lab.Node, userData []byte) error {
	var config struct {
		WriteFiles []struct {
			Path, Content, Permissions string
		} `json:"write_files"`
		RunCmd [][]string `json:"runcmd"`
	}
	if err := yaml.Unmarshal(userData, &config); err != nil {
		return fmt.Errorf("reading user_data: %w", err)
	}
	instance, err := json.Marshal(map[string]any{"v1": map[string]string{"instance_id": node.ServerID()}})
	if err != nil {
		return err
	}
	if err := node.Push(ctx, "/run/cloud-init/instance-data.json", 0o644, instance); err != nil {
		return err
	}
	for _, file := range config.WriteFiles {
		mode, err := strconv.ParseUint(file.Permissions, 8, 32)
		if err != nil {
			return fmt.Errorf("permissions of %s: %w", file.Path, err)
		}
		if err := node.Push(ctx, file.Path, fs.FileMode(mode), []byte(file.Content)); err != nil {
			return err
		}
	}
	for _, argv := range config.RunCmd {
		if _, err := node.Exec(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}
