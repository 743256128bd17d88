package containerdconf

import (
	"fmt"
	"maps"
	"slices"
)

// What containerd does with settings that `containerd config dump` shows, each with the
// place in containerd's sources.

const (
	shortName    = "cri" // in files of version 1
	criPlugin    = "io.containerd.grpc.v1.cri"
	imagesPlugin = "io.containerd.cri.v1.images"
	podsPlugin   = "io.containerd.cri.v1.runtime" // of a containerd that has imagesPlugin

	// defaultPath is config_path since 2.2 if it is not set. A dump does not have it
	// (plugins/cri/images/plugin.go, InitFn).
	defaultPath = "/etc/containerd/certs.d:/etc/docker/certs.d"
)

// pluginNames are the names of the table, below plugins, that may have registry.
var pluginNames = []string{criPlugin, imagesPlugin, shortName}

// dumpedPlugin is the name of that table in a dump: a dump is in the newest version.
func dumpedPlugin(plugins map[string]any) string {
	if _, ok := plugins[imagesPlugin]; ok {
		return imagesPlugin
	}
	return criPlugin
}

// ofPods returns the first directory of CNI plugins and the image of sandboxes. Since 2.1
// bin_dirs takes the place of bin_dir.
func ofPods(plugins, plugin map[string]any) (directory, image string) {
	image, _ = plugin["sandbox_image"].(string)
	if pinned, _ := plugin["pinned_images"].(map[string]any); pinned != nil {
		image, _ = pinned["sandbox"].(string)
	}
	pods := plugin
	if runtime, ok := plugins[podsPlugin].(map[string]any); ok {
		pods = runtime
	}
	cni, _ := pods["cni"].(map[string]any)
	directory, _ = cni["bin_dir"].(string)
	if all, _ := list(cni, "bin_dirs"); directory == "" && len(all) > 0 {
		directory = all[0]
	}
	return directory, image
}

// isCRI reports whether a name in a dump's disabled_plugins is that of a plugin that
// Kubernetes needs. The short name is there only if the files are of version 1:
// containerd refuses it in others.
func isCRI(name string) bool {
	return name == podsPlugin || slices.Contains(pluginNames, name)
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
		if config["tls"] != nil {
			found = append(found, fmt.Sprintf("registry.configs.%q.tls", name))
		}
	}
	return found, nil
}

// transfers reports whether the transfer service pulls images, as since 2.1. It reads
// config_path as one directory, not as a list (internal/cri/server/images, WithHostDir;
// issue 12808 of containerd/containerd, not mended in 2.4.2).
func (v Version) transfers() bool { return v.since(2, 1) }

// pullsLocally reports whether a setting turns the transfer service off, so that
// config_path may be a list (internal/cri/config/config.go, CheckLocalImagePullConfigs).
func pullsLocally(images, registry map[string]any) bool {
	for _, name := range []string{"mirrors", "configs", "auths"} {
		if t, _ := registry[name].(map[string]any); len(t) > 0 {
			return true
		}
	}
	downloads, set := images["max_concurrent_downloads"]
	return images["use_local_image_pull"] == true || images["image_pull_with_sync_fs"] == true ||
		images["discard_unpacked_layers"] == true || images["disable_snapshot_annotations"] == false ||
		set && downloads != int64(3)
}
