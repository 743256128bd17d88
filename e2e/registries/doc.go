// Package registries is the black-box suite of private registries: the registry
// VNF, and every master and worker connected to it, with real Docker, containerd
// and registries on machines of the lab. The specs' two requests are used unchanged, with
// the addresses that they name.
package registries
