// Package topology says which VMs, connection points and volumes a VNF's stack
// has, and which role each VM plays. A Source finds the topology out; what it
// means is decided here, the same for every Source.
package topology
