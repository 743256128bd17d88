// Package cluster is the black-box suite of the Kubernetes cluster VNF with storage:
// the request of the PersistentVolume spec as it stands, a storage server in a virtual
// machine with kernel NFS, masters and workers as systemd-nspawn machines, and a real
// Kubernetes API that the master's kubeconfig leads to. One VNF is taken through every
// LCM operation that the spec names; then again with the agents killed, and again with
// the controller killed.
package cluster
