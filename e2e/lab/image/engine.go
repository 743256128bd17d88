package image

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// Two layers over the containers' root, for machines that run containers of
// their own: the others do not carry the engine's 70 MB, or 330 installed.

// offeredRecipe puts an engine into a repository of the machine, so that
// installing it is part of what is tested.
func offeredRecipe(s System) recipe {
	return recipe{
		name:    "nspawn-engine-offered",
		offline: append(s.engine(), "apparmor"),
		files:   []string{"engine"},
		scripts: []string{"layer-offer.sh"},
		enabled: []string{"sysinit.target.wants/lab-cgroups.service"},
	}
}

// installedRecipe installs it, for machines whose engine is there before nodehitch.
func installedRecipe(s System) recipe {
	return recipe{
		name:     "nspawn-engine",
		packages: s.engine(),
		scripts:  []string{"layer-install.sh"},
	}
}

// EngineOffered returns folders that belong over each other, the uppermost
// first, all to be used read-only: a container's root in which a container
// engine can be installed with no network.
func (c *Cache) EngineOffered(ctx context.Context, s System) ([]string, error) {
	base, err := c.Nspawn(ctx, s)
	if err != nil {
		return nil, err
	}
	layer, err := c.layer(ctx, s, offeredRecipe(s), []recipe{nspawnRecipe}, []string{base})
	return []string{layer, base}, err
}

// EngineInstalled is EngineOffered with the engine installed, as a service that
// starts with the machine.
func (c *Cache) EngineInstalled(ctx context.Context, s System) ([]string, error) {
	below, err := c.EngineOffered(ctx, s)
	if err != nil {
		return nil, err
	}
	layer, err := c.layer(ctx, s, installedRecipe(s), []recipe{offeredRecipe(s), nspawnRecipe}, below)
	return append([]string{layer}, below...), err
}

// nfsRecipe is a layer for containers whose image has the NFS client.
var nfsRecipe = recipe{name: "nspawn-nfs", packages: []string{"nfs-common"}, scripts: []string{"layer-install.sh"}}

// NFSClient is EngineOffered with the NFS client and no engine.
func (c *Cache) NFSClient(ctx context.Context, s System) ([]string, error) {
	base, err := c.Nspawn(ctx, s)
	if err != nil {
		return nil, err
	}
	layer, err := c.layer(ctx, s, nfsRecipe, []recipe{nspawnRecipe}, []string{base})
	return []string{layer, base}, err
}

// layer returns what recipe r adds to the folders below it, which their recipes made.
func (c *Cache) layer(ctx context.Context, s System, r recipe, recipes []recipe, below []string) (string, error) {
	keys := []string{r.key(s)}
	for _, b := range recipes {
		keys = append(keys, b.key(s))
	}
	return c.Get(ctx, s.Named(r.name), Key(keys...), func(ctx context.Context, dir string) error {
		return r.buildLayer(ctx, s, strings.Join(below, ":"), dir)
	})
}

// buildLayer fills dir by the recipe's script.
func (r recipe) buildLayer(ctx context.Context, s System, below, dir string) error {
	if err := r.run(ctx, s, dir, below); err != nil {
		return err
	}
	return r.complete(dir)
}

// run runs the recipe's first script: with what is below, a scratch folder and dir. It mounts
// in a mount namespace of its own, so that a run that is killed leaves nothing mounted.
func (r recipe) run(ctx context.Context, s System, dir, below string) error {
	script, err := data.ReadFile(r.scripts[0])
	if err != nil {
		return err
	}
	sources, err := Sources(ctx, release[s])
	if err != nil {
		return err
	}
	scratch := dir + ".scratch"
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return err
	}
	run := filepath.Join(scratch, "run")
	if err := os.WriteFile(run, script, 0o755); err != nil {
		return err
	}
	env := []string{
		"LAB_OFFLINE=" + strings.Join(r.offline, " "), "LAB_PACKAGES=" + strings.Join(r.packages, " "),
		"LAB_SOURCES=" + strings.Join(sources, "\n"),
	}
	return command(ctx, env, "unshare", "--mount", "--propagation", "private", run, below, scratch, dir)
}
