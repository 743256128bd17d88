package containerdconf

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// What the versions of containerd do with their configuration, each with the place in
// containerd's sources. `containerd config dump` of 1.6 and 2.2 confirms it, and so do the
// requests of 2.2 when an image is pulled through its CRI.

const (
	criPlugin    = "io.containerd.grpc.v1.cri"
	imagesPlugin = "io.containerd.cri.v1.images"

	// defaultPath is config_path since 2.2 if it is not set (2.2
	// internal/cri/config/config_unix.go, later plugins/cri/images/plugin.go).
	defaultPath = "/etc/containerd/certs.d:/etc/docker/certs.d"
)

// newestSchema is the newest version that containerd accepts
// (cmd/containerd/server/config/config.go, ValidateVersion; version/version.go has the
// number). 1.x accepts all, and reads 3 as 2.
func (v Version) newestSchema() int64 {
	if v.Major < 2 {
		return math.MaxInt32
	}
	if v.since(2, 3) {
		return 4
	}
	return 3
}

// plugin is the name of the table, below plugins, that holds registry.
//
//   - 1.x, services/server/config/config.go, Decode: by the plugin's short name in
//     version 1, by its URI in any other.
//   - 2.x, version 2: cri's table is migrated to that of images. If cri's table has a
//     registry, it replaces the one of images (plugins/cri/images/plugin.go,
//     configMigration). Since 2.3 version 1 is migrated too; 2.0 to 2.2 lose its registry,
//     but keep the table of images, and so does 2.3.
func (v Version) plugin(schema int, plugins map[string]any) string {
	switch {
	case v.Major < 2 && schema < 2:
		return "cri"
	case v.Major < 2:
		return criPlugin
	case schema == 2 && (has(plugins, criPlugin) || !has(plugins, imagesPlugin)):
		return criPlugin
	}
	return imagesPlugin
}

// has reports whether a plugin's table has a registry.
func has(plugins map[string]any, name string) bool {
	plugin, _ := plugins[name].(map[string]any)
	return plugin["registry"] != nil
}

// isCRI reports whether a name in disabled_plugins is that of a plugin that Kubernetes
// needs. In version 1 they are short names (1.x V1DisabledFilter; 2.x
// v1MigratePluginName), in others URIs.
func (v Version) isCRI(schema int, name string) bool {
	if v.Major < 2 {
		return name == v.plugin(schema, nil)
	}
	return schema < 2 && name == "cri" || slices.Contains([]string{criPlugin, imagesPlugin, "io.containerd.cri.v1.runtime"}, name)
}

// legacy returns the settings that containerd refuses together with config_path: mirrors
// and, in 1.x, configs with tls (pkg/cri/config/config.go, ValidatePluginConfig; 2.x
// ValidateImageConfig). It accepts auths, and configs with auth, with a warning.
func legacy(registry map[string]any, v Version) ([]string, error) {
	mirrors, err := table(registry, "mirrors")
	if err != nil {
		return nil, err
	}
	var found []string
	if len(mirrors) > 0 {
		found = append(found, "registry.mirrors")
	}
	configs, err := table(registry, "configs")
	if err != nil || v.Major >= 2 {
		return found, err
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		config, err := table(configs, name)
		if err != nil {
			return nil, err
		}
		if _, ok := config["tls"]; ok {
			found = append(found, fmt.Sprintf("registry.configs.%q.tls", name))
		}
	}
	return found, nil
}

// transfers reports whether the transfer service pulls images, as since 2.1. It reads
// config_path as one directory, not as a list (internal/cri/server/images, WithHostDir;
// containerd's issue 12808, open in 2.4.0-beta.0).
func (v Version) transfers() bool { return v.since(2, 1) }

// pullsLocally reports whether a setting turns the transfer service off, so that
// config_path may be a list (internal/cri/config/config.go, CheckLocalImagePullConfigs).
func pullsLocally(plugins, registry map[string]any) bool {
	for _, name := range []string{"mirrors", "configs", "auths"} {
		if t, _ := registry[name].(map[string]any); len(t) > 0 {
			return true
		}
	}
	images, _ := plugins[imagesPlugin].(map[string]any)
	for _, settings := range []map[string]any{images, migrated(plugins)} {
		downloads, set := settings["max_concurrent_downloads"]
		if settings["use_local_image_pull"] == true || settings["image_pull_with_sync_fs"] == true ||
			settings["discard_unpacked_layers"] == true || settings["disable_snapshot_annotations"] == false ||
			set && downloads != int64(3) {
			return true
		}
	}
	return false
}

// migrated are the same settings as migrated from cri's table of version 2. Some are below
// its table containerd, and are migrated only if that has a runtime
// (plugins/cri/images/plugin.go, migrateConfig).
func migrated(plugins map[string]any) map[string]any {
	cri, _ := plugins[criPlugin].(map[string]any)
	below, _ := cri["containerd"].(map[string]any)
	if below["runtimes"] == nil {
		below = nil
	}
	settings := map[string]any{}
	for name, from := range map[string]map[string]any{
		"max_concurrent_downloads": cri, "image_pull_with_sync_fs": cri,
		"discard_unpacked_layers": below, "disable_snapshot_annotations": below,
	} {
		if value, ok := from[name]; ok {
			settings[name] = value
		}
	}
	return settings
}
