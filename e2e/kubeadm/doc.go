// Package kubeadm tests the example of a cluster's script for kubeadm. A stand-in kubeadm
// logs what the example asks for: docs/dev/lab.md says how far the real one goes in the lab.
package kubeadm
