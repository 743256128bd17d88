package image

import (
	"context"
	"slices"
)

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

// vmKubeletRecipe is the same for virtual machines, which need less help: they have their own
// kernel, and systemd manages their control groups. Nothing of them serves NFS.
func vmKubeletRecipe(s System) recipe {
	r := vmRecipe
	r.name = "vm-kubelet"
	r.packages = slices.Concat(r.packages, s.engine(), kubeletRecipe.packages)
	r.packages = slices.DeleteFunc(r.packages, func(name string) bool { return name == "nfs-kernel-server" })
	// The last folder has files in place of those of containers.
	r.files = slices.Concat(r.files, kubeletRecipe.files, []string{"kubelet-vm"})
	r.masked = slices.Concat(r.masked, kubeletRecipe.masked)
	r.enabled = slices.Concat(r.enabled, []string{"multi-user.target.wants/kubelet.service"})
	return r
}
