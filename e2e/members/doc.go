// Package members is the black-box suite of a Kubernetes cluster whose members join and
// leave with the VNF's operations: three masters and three workers as systemd-nspawn
// machines with real agents, a real Kubernetes API with its controllers, and an etcd of
// the masters' own with a member on each.
//
// Two things are stood in for, because no kubelet and no scheduler runs in the lab: what
// joins a machine (the owner's image or script) does with the API server what kubeadm and
// kubelet do, by the facts in the machine's cluster.json and nothing else; and what places
// Pods on Nodes, and ends them there.
package members
