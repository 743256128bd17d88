package containerdconf_test

import "testing"

func TestWhatPodsAreStartedWith(t *testing.T) {
	const pods = "[plugins.\"io.containerd.cri.v1.runtime\".cni]\n"
	const pinned = "[plugins.\"io.containerd.cri.v1.images\".pinned_images]\nsandbox = 'r/pause:1'\n"
	const before2 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = 'r/pause:1'\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = '/usr/lib/cni'\n"
	for name, c := range map[string]struct{ version, content, plugins, image string }{
		"1.7: nothing set":      {"1.7", "", "/opt/cni/bin", "registry.k8s.io/pause:3.8"},
		"1.7":                   {"1.7", before2, "/usr/lib/cni", "r/pause:1"},
		"2.0: nothing set":      {"2.0", "", "/opt/cni/bin", "registry.k8s.io/pause:3.10"},
		"2.0":                   {"2.0", "version = 3\n" + pods + "bin_dir = '/usr/lib/cni'\n" + pinned, "/usr/lib/cni", "r/pause:1"},
		"2.1: nothing set":      {"2.1", "", "/opt/cni/bin", "registry.k8s.io/pause:3.10"},
		"2.1: a list":           {"2.1", "version = 3\n" + pods + "bin_dirs = ['/a', '/b']\n", "/a", "registry.k8s.io/pause:3.10"},
		"2.4: nothing set":      {"2.4", "", "/opt/cni/bin", "registry.k8s.io/pause:3.10.2"},
		"2.4: as 1.7 writes it": {"2.4", before2, "/usr/lib/cni", "r/pause:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(t, c.version, c.content); got.CNIPlugins != c.plugins || got.PauseImage != c.image {
				t.Errorf("plugins are in %q, and Pods begin with %q; want %q and %q", got.CNIPlugins, got.PauseImage, c.plugins, c.image)
			}
		})
	}
}
