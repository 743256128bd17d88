// Package kubernetes makes real clusters from one request: kubeadm, kubelet and containerd on
// machines of the lab, which nothing but the agent has prepared.
package kubernetes
