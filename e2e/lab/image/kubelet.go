package image

import "context"

// kubeletRecipe is a layer over the installed engine, for containers that run a kubelet: what
// it and kubeadm need of Debian, and containerd's configuration. The programs of Kubernetes
// are no package of Debian's.
var kubeletRecipe = recipe{
	name: "nspawn-kubelet",
	packages: []string{
		"containernetworking-plugins", "iptables", "conntrack", "ethtool", "socat",
		"keepalived",     // holds the masters' shared address
		"nfs-common",     // for volumes of storage servers
		"busybox-static", // for the Pods of tests
	},
	files:   []string{"kubelet"},
	scripts: []string{"layer-add.sh"},
	masked:  []string{"masked-kubelet.txt"},
	enabled: []string{"sysinit.target.wants/lab-kubelet.service", "multi-user.target.wants/kubelet.service"},
}

// Kubelet is EngineInstalled for machines that run a kubelet.
func (c *Cache) Kubelet(ctx context.Context, s System) ([]string, error) {
	below, err := c.EngineInstalled(ctx, s)
	if err != nil {
		return nil, err
	}
	layer, err := c.layer(ctx, s, kubeletRecipe, []recipe{installedRecipe(s), offeredRecipe(s), nspawnRecipe}, below)
	return append([]string{layer}, below...), err
}
