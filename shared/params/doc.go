// Package params is the typed form, and the whole validation, of what a Tacker
// InstantiateVnfRequest says about the two VNFs that nodehitch serves: the
// Kubernetes cluster (k8s_cluster_installation_param) and the private registry
// (private_registry_installation_param). It covers every role, and also the
// files of the VNF package that the parameters name.
//
// All that is wrong with a body is reported at once, each fault with a JSON
// pointer, before any VM exists. What reaches a file or a command on a node has
// passed a grammar of its own here. Unknown attributes may be for Tacker or other programs:
// they are kept in the body and reported as warnings.
//
// Sources, as named in the comments: PV is the Tacker specification "Support
// persistent volumes for Kubernetes cluster with MgmtDriver", REG is "Support
// Docker private registry for Kubernetes cluster with MgmtDriver", GUIDE is
// Tacker's user guide "How to use Mgmt Driver for deploying Kubernetes Cluster".
// 1, 0..1, 1..N are cardinalities there.
package params
