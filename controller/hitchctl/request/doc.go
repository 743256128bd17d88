// Package request reads and checks, without any controller, what `validate` and
// `apply` are given: the body of a Tacker InstantiateVnfRequest or a PUT of ours,
// a topology, and the VNF package that the parameters name files of. The checks
// are the controller's own.
package request
